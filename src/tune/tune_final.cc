// The final: the best of the screening against the baseline over many rounds, and once more on
// fresh data.
#include <fmt/core.h>

#include <algorithm>

#include "tune/tune_session.hpp"

namespace opforge {
namespace {

constexpr std::size_t kFinalRounds = 25, kConfirmRounds = 31;
constexpr std::size_t kLongBlock = 5;  // rounds that a longer look makes one
constexpr double kFinalLimit_s = 6, kConfirmLimit_s = 4;
constexpr std::size_t kMostFinalists = 8;
constexpr std::size_t kMostConfirmed = 3;  // of those that tie
constexpr int kMostDisturbed = 5;  // repeats of a comparison whose A/A pair disagrees with itself

}  // namespace

// Indexes into measured_.
std::vector<std::size_t> TuneSession::pick_finalists() {
  std::vector<Summary> ratios;
  std::vector<Contender> contenders;
  double noise = 0;
  for (const Measured& one : measured_) {
    const TrialRecord& trial = report_.trials[one.trial];
    ratios.push_back(trial.ratio);
    contenders.push_back({trial.code_key, trial.resources});
    noise = std::max(noise, trial.noise);
  }
  return finalists(ratios, contenders, noise, kMostFinalists);
}

// None when the codes cannot be timed together, or the machine never was quiet enough.
std::optional<Comparison> TuneSession::compare(std::span<const BuiltCode> codes, std::size_t rounds,
                                               double time_limit_s, std::size_t block) {
  for (int attempt = 0; attempt < kMostDisturbed && !cancelled(); ++attempt) {
    MeasureAnswer answer =
        evaluator_.measure(codes, {rounds * block, time_limit_s * static_cast<double>(block)});
    report_.device_s += answer.seconds;
    if (answer.outcome != TrialOutcome::kMeasured) {
      report_.warnings.push_back(fmt::format("a final comparison failed ({}): {}",
                                             trial_outcome_name(answer.outcome), answer.reason));
      return std::nullopt;
    }
    answer.comparison = fold_rounds(std::move(answer.comparison), block);
    if (!is_disturbed(answer.comparison.ratios[0]) &&
        answer.comparison.readings[0].rejected.empty()) {
      return std::move(answer.comparison);
    }
  }
  if (!report_.interrupted) {
    report_.warnings.push_back(
        "the machine was too busy for a fair comparison: the baseline differed from itself");
  }
  return std::nullopt;
}

// Fresh inputs, fresh buffers. A candidate on the edge gets one longer look.
bool TuneSession::confirm(const BuiltCode& winner, Comparison& last) {
  const std::vector<BuiltCode> pair{*baseline_, winner};
  for (const std::size_t block : {std::size_t{1}, kLongBlock}) {
    auto comparison = compare(pair, kConfirmRounds, kConfirmLimit_s, block);
    if (!comparison) return false;
    last = std::move(*comparison);
    if (!last.readings[1].rejected.empty()) return false;
    if (clearly_faster(last.ratios[1])) return true;
    if (!is_promising(last)) return false;
  }
  return false;
}

void TuneSession::settle(const TrialRecord& trial, const BuiltCode& code, const Comparison* last,
                         std::size_t reading) {
  ChoiceRecord& choice = report_.choice;
  choice.context = report_.context;
  choice.variant = trial.variant;
  choice.code_key = code.artifact.code_key;
  choice.baseline_key = report_.trials[0].code_key;
  choice.toolchain = code.artifact.toolchain.name + " " + code.artifact.toolchain.version;
  choice.adopted = choice.code_key != choice.baseline_key;
  choice.median_us = trial.time_us.median;
  choice.baseline_us = report_.trials[0].time_us.median;
  choice.noise = trial.noise;
  choice.cache = request_.cache;
  if (last != nullptr) {
    choice.median_us = last->readings[reading].time_us.median;
    choice.baseline_us = last->readings[0].time_us.median;
    choice.ratio_p80 = reading == 0 ? 1 : last->ratios[reading].p80;
    choice.noise = last->noise;
  }
  if (report_.decision && choice.adopted) choice.margin = report_.decision->margin;
  choice.tried = report_.tried + (baseline_index_ < request_.space.size() ? 1 : 0);
  choice.space = static_cast<std::int64_t>(request_.space.size());
  choice.finished_at = unix_now();
  report_.chosen = true;
  if (request_.prove && !cancelled()) {
    show(TuneProgress::Phase::kProving);
    auto attestation = evaluator_.prove(code);
    if (attestation)
      report_.attestation = std::move(*attestation);
    else
      report_.warnings.push_back("the chosen variant could not be attested: " +
                                 attestation.error().message);
  }
  if (request_.records == nullptr || cancelled()) return;
  if (auto status = request_.records->choose(choice); !status) {
    report_.warnings.push_back("the choice could not be recorded: " + status.error().message);
  }
}

// The default does not work here: any candidate that does is better, the yardstick or one that
// beats it.
void TuneSession::settle_without_baseline() {
  const auto yardstick = std::find_if(measured_.begin(), measured_.end(), [&](const Measured& one) {
    return report_.trials[one.trial].code_key == baseline_->artifact.code_key;
  });
  if (yardstick == measured_.end()) return;
  report_.why = "the default cannot be used here; the first candidate that works";
  settle(report_.trials[yardstick->trial], *baseline_, nullptr, 0);
}

void TuneSession::keep_baseline(std::string why) {
  report_.why = std::move(why);
  if (report_.trials[0].outcome == TrialOutcome::kMeasured) {
    settle(report_.trials[0], *baseline_, nullptr, 0);
  } else if (baseline_) {
    settle_without_baseline();
  }
}

void TuneSession::finish_without_candidates() {
  report_.why = report_.tried == 0
                    ? "no candidate was tried; the default stays"
                    : fmt::format("all {} candidates failed; the default stays", report_.tried);
  // Trouble that may pass is no result: nothing is recorded as tuned.
  const bool lasting =
      std::all_of(report_.trials.begin(), report_.trials.end(),
                  [](const TrialRecord& trial) { return is_final(trial.outcome); });
  const bool default_works = report_.trials[0].outcome == TrialOutcome::kMeasured;
  if (default_works && lasting && report_.tried > 0) {
    settle(report_.trials[0], *baseline_, nullptr, 0);
  }
}

TuneSession::Final TuneSession::gather_final() {
  Final final;
  final.codes.push_back(*baseline_);
  final.contenders.push_back({baseline_->artifact.code_key, baseline_->artifact.resources});
  final.trials.push_back(0);
  for (std::size_t index : pick_finalists()) {
    Measured& one = measured_[index];
    if (!one.code) {  // measured in an earlier run: from the store, or compiled again
      bool compiled = false;
      auto code = request_.hooks.obtain(report_.trials[one.trial].variant, &compiled);
      report_.compiled += compiled ? 1 : 0;
      if (!code) continue;
      one.code = std::move(*code);
    }
    final.codes.push_back(*one.code);
    final.contenders.push_back({one.code->artifact.code_key, one.code->artifact.resources});
    final.trials.push_back(one.trial);
  }
  return final;
}

void TuneSession::finish() {
  if (measured_.empty()) return finish_without_candidates();
  show(TuneProgress::Phase::kFinal);
  const Final final = gather_final();
  if (final.codes.size() == 1) {
    return keep_baseline(fmt::format("none of {} candidates that work is faster than the baseline",
                                     measured_.size()));
  }
  auto comparison = compare(final.codes, kFinalRounds, kFinalLimit_s, 1);
  if (comparison && decide(*comparison, final.contenders).tied.empty() &&
      is_promising(*comparison)) {
    comparison = compare(final.codes, kFinalRounds, kFinalLimit_s, kLongBlock);
  }
  if (!comparison) return keep_baseline("the final could not be held; the default stays");
  report_.decision = decide(*comparison, final.contenders);
  const auto& tied = report_.decision->tied;
  if (tied.empty()) return keep_baseline(report_.decision->why);
  show(TuneProgress::Phase::kConfirming);
  Comparison last;
  std::size_t winner = 0;
  for (std::size_t i = 0; i < tied.size() && i < kMostConfirmed && winner == 0; ++i) {
    if (confirm(final.codes[tied[i]], last)) winner = tied[i];
  }
  if (winner == 0) {
    return keep_baseline("no winner of the final was confirmed on fresh data; the default stays");
  }
  TrialRecord& trial = report_.trials[final.trials[winner]];
  const CheckAnswer again = check_code(final.codes[winner], trial);
  if (again.outcome != TrialOutcome::kMeasured) {
    report_.warnings.push_back(fmt::format("{} was wrong when checked again after timing: {}",
                                           to_string(trial.variant), again.reason));
    trial.outcome = again.outcome;
    trial.reason = again.reason;
    if (request_.records != nullptr && !cancelled()) {
      (void)request_.records->add(report_.context, trial);
    }
    return keep_baseline("the winner was wrong when checked again; the default stays");
  }
  report_.why = report_.decision->why;
  settle(trial, final.codes[winner], &last, 1);
}

}  // namespace opforge
