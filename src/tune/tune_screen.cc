// One batch of candidates: compiled side by side, then checked and timed while nothing compiles.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "tune/tune_session.hpp"

namespace opforge {
namespace {

constexpr std::size_t kScreenRounds = 7;
constexpr std::size_t kGroup = 5;  // candidates timed together with the baseline
constexpr double kScreenLimit_s = 4;

void describe(TrialRecord& trial, const BuiltCode& code) {
  trial.code_key = code.artifact.code_key;
  trial.resources = code.artifact.resources;
  trial.toolchain = code.artifact.toolchain.name + " " + code.artifact.toolchain.version;
}

bool sound(std::span<const double> samples) {
  return !samples.empty() && std::all_of(samples.begin(), samples.end(),
                                         [](double s) { return std::isfinite(s) && s > 0; });
}

}  // namespace

std::uint64_t TuneSession::fresh_salt() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32 | source()) | 1;  // 0 would mean "no salt"
}

std::vector<TuneSession::Built> TuneSession::compile(const std::vector<Proposal>& proposals) {
  std::vector<Built> batch;
  for (const Proposal& proposal : proposals) {
    Built built{
        proposal.index, proposal.rounds == 0 ? kScreenRounds : proposal.rounds, {}, std::nullopt};
    built.trial.variant = request_.space[proposal.index];
    batch.push_back(std::move(built));
  }
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> compiled{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < batch.size() && !request_.cancelled(); i = next++) {
      Built& built = batch[i];
      if (const auto key = request_.hooks.key(built.trial.variant)) {
        built.trial.code_key = *key;
        const auto known = known_.find(*key);
        const bool same_yardstick = known != known_.end() && baseline_ &&
                                    known->second.baseline_key == baseline_->artifact.code_key;
        if (known != known_.end() && !trial_of_.contains(built.index) &&
            (known->second.outcome != TrialOutcome::kMeasured || same_yardstick)) {
          built.trial = known->second;
          built.trial.from_records = true;
          continue;
        }
      }
      bool ran = false;
      auto code = request_.hooks.obtain(built.trial.variant, &ran);
      compiled += ran ? 1 : 0;
      if (code) {
        describe(built.trial, *code);
        built.trial.outcome = TrialOutcome::kMeasured;
        built.code = std::move(*code);
      } else {
        built.trial.outcome = TrialOutcome::kNotCompiled;
        built.trial.reason = code.error().message;
      }
    }
  };
  {
    const std::size_t wanted =
        request_.compile_jobs > 0
            ? request_.compile_jobs
            : static_cast<std::size_t>(std::max<std::int64_t>(detect_cpu().sm_count, 1));
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(wanted, batch.size()); ++i) threads.emplace_back(work);
    work();
  }
  report_.compiled += compiled;
  return batch;
}

CheckAnswer TuneSession::check_code(const BuiltCode& code, TrialRecord& trial) {
  const std::int64_t most = request_.device.shared_bytes;
  if (const std::int64_t needed = code.artifact.resources.shared_bytes; most > 0 && needed > most) {
    return {TrialOutcome::kRefused,
            fmt::format("needs {} bytes of shared memory, {} has {}", needed, request_.device.model,
                        most),
            0, 0};
  }
  trial.salt = fresh_salt();
  CheckAnswer answer = evaluator_.check(code, trial.salt);
  report_.device_s += answer.seconds;
  return answer;
}

void TuneSession::check(std::vector<Built>& batch) {
  for (Built& built : batch) {
    if (!built.code || trial_of_.contains(built.index))
      continue;  // failed, known, or checked in an earlier rung
    if (cancelled()) {
      built.trial.outcome = TrialOutcome::kOther;
      continue;
    }
    const CheckAnswer answer = check_code(*built.code, built.trial);
    built.trial.outcome = answer.outcome;
    built.trial.reason = answer.reason;
  }
}

void TuneSession::screen(std::vector<Built>& batch) {
  std::vector<Built*> right;
  for (Built& built : batch) {
    if (built.code && built.trial.outcome == TrialOutcome::kMeasured) right.push_back(&built);
  }
  if (right.empty()) return;
  // Without a default that works the first candidate that does is the yardstick.
  if (!baseline_) baseline_ = *right.front()->code;
  for (std::size_t i = 0; i < right.size();) {
    // Only candidates that are worth the same number of rounds share them.
    std::size_t end = i;
    while (end < right.size() && end - i < kGroup && right[end]->rounds == right[i]->rounds) ++end;
    screen_group(std::span(right).subspan(i, end - i));
    i = end;
  }
}

void TuneSession::screen_group(std::span<Built*> group) {
  if (cancelled()) {
    for (Built* built : group) built->trial.outcome = TrialOutcome::kOther;
    return;
  }
  std::vector<BuiltCode> codes{*baseline_};
  for (const Built* built : group) codes.push_back(*built->code);
  const MeasureAnswer answer = evaluator_.measure(codes, {group.front()->rounds, kScreenLimit_s});
  report_.device_s += answer.seconds;
  if (answer.outcome == TrialOutcome::kMeasured) {
    for (std::size_t i = 0; i < group.size(); ++i)
      take_reading(*group[i], answer.comparison, i + 1);
    return;
  }
  if (group.size() == 1) {
    group[0]->trial.outcome = answer.outcome;
    group[0]->trial.reason = answer.reason;
    return;
  }
  // One of them spoils it for the others: each on its own.
  for (std::size_t i = 0; i < group.size(); ++i) screen_group(group.subspan(i, 1));
}

void TuneSession::take_reading(Built& built, const Comparison& comparison, std::size_t reading) {
  const Reading& incumbent = comparison.readings[0];
  const Reading& own = comparison.readings[reading];
  TrialRecord& trial = built.trial;
  trial.baseline_key = baseline_ ? baseline_->artifact.code_key : trial.code_key;
  if (own.rejected.starts_with("refused")) {
    trial.outcome = TrialOutcome::kRefused;
    trial.reason = own.rejected;
    return;
  }
  if (own.rejected.starts_with("wrong")) {
    trial.outcome = TrialOutcome::kWrongResult;
    trial.reason = own.rejected;
    return;
  }
  if (!own.rejected.empty() || !sound(own.samples_us)) {
    trial.outcome = TrialOutcome::kNonsenseTime;
    trial.reason = own.rejected.empty() ? "a time is not a finite number above zero" : own.rejected;
    return;
  }
  if (!incumbent.rejected.empty() || !sound(incumbent.samples_us)) {
    trial.outcome = TrialOutcome::kOther;
    trial.reason = "the yardstick's own reading cannot be believed: " + incumbent.rejected;
    return;
  }
  trial.time_us = own.time_us;
  trial.ratio = comparison.ratios[reading];
  trial.noise = comparison.noise;
}

}  // namespace opforge
