#include "tune/adopt.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace opforge {
namespace {

constexpr double kMostNoise = 0.10;  // a noisier machine does not widen the field further

}  // namespace

bool clearly_faster(const Summary& ratio) {
  return ratio.count > 0 && ratio.p80 < 1 / kAdoptionGain;
}

bool maybe_faster(const Summary& ratio) { return ratio.count > 0 && ratio.p20 < 1 / kAdoptionGain; }

bool is_disturbed(const Summary& same_against_same) {
  return same_against_same.count > 0 &&
         (same_against_same.p80 < 1 / kAdoptionGain || same_against_same.p20 > kAdoptionGain);
}

bool comes_before(const Contender& a, const Contender& b) {
  const auto order = [](const Contender& c) {
    const Resources& r = c.resources;
    return std::tie(r.registers, r.shared_bytes, r.local_bytes, r.code_bytes, c.code_key);
  };
  return order(a) < order(b);
}

Decision decide(const Comparison& comparison, std::span<const Contender> contenders) {
  Decision decision;
  std::vector<std::size_t> able;
  for (std::size_t i = 1; i < comparison.readings.size(); ++i) {
    if (comparison.readings[i].rejected.empty() && clearly_faster(comparison.ratios[i]))
      able.push_back(i);
  }
  if (able.empty()) {
    decision.why = fmt::format(
        "no candidate is more than {:.0f} % faster than the baseline in four of five rounds",
        (kAdoptionGain - 1) * 100);
    return decision;
  }
  const auto median = [&](std::size_t i) { return comparison.ratios[i].median; };
  const std::size_t best = *std::min_element(able.begin(), able.end(),
                                             [&](auto a, auto b) { return median(a) < median(b); });
  // Whether one of two equals had the calmer rounds must not decide: a tie is judged against the
  // best alone, and fresh data will have to confirm whoever is taken.
  for (std::size_t i = 1; i < comparison.readings.size(); ++i) {
    if (!comparison.readings[i].rejected.empty() || !(median(i) < 1 / kAdoptionGain)) continue;
    const Summary against =
        paired_ratio(comparison.readings[best].samples_us, comparison.readings[i].samples_us);
    if (i == best || !clearly_faster(against)) decision.tied.push_back(i);
  }
  std::sort(decision.tied.begin(), decision.tied.end(),
            [&](auto a, auto b) { return comes_before(contenders[a], contenders[b]); });
  decision.winner = decision.tied.front();
  double next = INFINITY;
  for (std::size_t i = 1; i < comparison.readings.size(); ++i) {
    const bool counts = comparison.readings[i].rejected.empty() && comparison.ratios[i].count > 0;
    if (counts && i != decision.winner) next = std::min(next, median(i));
  }
  if (std::isfinite(next)) decision.margin = next / median(decision.winner) - 1;
  decision.why = fmt::format("{:.2f} x the baseline's speed (p80 of the time ratio {:.3f})",
                             1 / median(decision.winner), comparison.ratios[decision.winner].p80);
  if (decision.tied.size() > 1) {
    decision.why += fmt::format("; one of {} that tie, the one with the fewest resources",
                                decision.tied.size());
  }
  return decision;
}

bool is_promising(const Comparison& comparison) {
  for (std::size_t i = 1; i < comparison.readings.size(); ++i) {
    const Summary& ratio = comparison.ratios[i];
    if (comparison.readings[i].rejected.empty() && ratio.median < 1 / kAdoptionGain) return true;
  }
  return false;
}

Comparison fold_rounds(Comparison comparison, std::size_t block) {
  const std::size_t blocks = block == 0 ? 0 : comparison.rounds / block;
  if (block < 2 || blocks < 2) return comparison;
  const auto fold = [&](std::vector<double>& samples) {
    std::vector<double> folded;
    for (std::size_t i = 0; i + block <= samples.size(); i += block) {
      folded.push_back(summarise(std::span(samples).subspan(i, block)).median);
    }
    samples = std::move(folded);
  };
  fold(comparison.incumbent_again);
  for (Reading& reading : comparison.readings) {
    fold(reading.samples_us);
    reading.time_us = summarise(reading.samples_us);
  }
  const auto& incumbent = comparison.readings.front().samples_us;
  comparison.rounds = incumbent.size();
  comparison.noise = relative_noise(comparison.incumbent_again, incumbent);
  for (std::size_t i = 0; i < comparison.readings.size(); ++i) {
    const auto& samples = i == 0 ? comparison.incumbent_again : comparison.readings[i].samples_us;
    comparison.ratios[i] = paired_ratio(samples, incumbent);
  }
  return comparison;
}

std::vector<std::size_t> finalists(std::span<const Summary> ratios,
                                   std::span<const Contender> contenders, double noise,
                                   std::size_t most) {
  std::vector<std::size_t> field;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (maybe_faster(ratios[i])) field.push_back(i);
  }
  if (field.empty() || most == 0) return {};
  const std::size_t best = *std::min_element(field.begin(), field.end(), [&](auto a, auto b) {
    return ratios[a].median < ratios[b].median;
  });
  const double limit =
      ratios[best].median * (kAdoptionGain + std::clamp(2 * noise, 0.0, kMostNoise));
  std::erase_if(field, [&](std::size_t i) { return i == best || ratios[i].median > limit; });
  std::sort(field.begin(), field.end(),
            [&](auto a, auto b) { return comes_before(contenders[a], contenders[b]); });
  if (field.size() > most - 1) field.resize(most - 1);
  field.insert(field.begin(), best);
  return field;
}

}  // namespace opforge
