#include "tune/tune_session.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"

namespace opforge {
namespace {

// Shares of the budgets that the search may use; the rest is the final's.
constexpr double kSearchWall = 0.7, kSearchDevice = 0.8;
constexpr std::size_t kBatch = 8;
constexpr std::size_t kBaselineRounds = 9;

}  // namespace

TuneSession::TuneSession(TuneRequest& request, TuneReport& report, Evaluator& evaluator)
    : request_(request), report_(report), evaluator_(evaluator) {
  const auto& space = request_.space;
  const std::string wanted = to_string(request_.baseline);
  baseline_index_ = static_cast<std::size_t>(
      std::find_if(space.begin(), space.end(),
                   [&](const Variant& variant) { return to_string(variant) == wanted; }) -
      space.begin());
}

double TuneSession::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

bool TuneSession::cancelled() {
  if (!report_.interrupted && request_.cancelled()) report_.interrupted = true;
  return report_.interrupted;
}

Status TuneSession::run() {
  show(TuneProgress::Phase::kStarting);
  OPFORGE_TRY(evaluator_.open());
  take_known_trials();
  const bool go_on = start_baseline();
  if (go_on) {
    search();
    if (!cancelled()) finish();
  }
  cancelled();
  report_.wall_s = elapsed_s();
  if (report_.interrupted) {
    report_.chosen = false;
    report_.stopped_by = "interrupted";
    report_.resume =
        request_.records == nullptr
            ? fmt::format("interrupted after {} candidates; nothing is kept without records",
                          report_.tried)
            : fmt::format(
                  "interrupted: {} of {} candidates are kept; the same command goes on from there",
                  report_.tried,
                  request_.budget.candidates
                      ? std::min<std::int64_t>(*request_.budget.candidates,
                                               static_cast<std::int64_t>(request_.space.size()))
                      : static_cast<std::int64_t>(request_.space.size()));
  }
  return {};
}

void TuneSession::take_known_trials() {
  if (request_.records == nullptr) return;
  auto trials = request_.records->trials(report_.context);
  if (!trials) {
    report_.warnings.push_back("earlier trials cannot be read, starting afresh: " +
                               trials.error().message);
    return;
  }
  if (request_.again) return;
  for (TrialRecord& trial : *trials) {
    if (is_final(trial.outcome) && trial.cache == request_.cache)
      known_.emplace(trial.code_key, std::move(trial));
  }
}

// False when there is no point in going on: too little memory, or interrupted.
bool TuneSession::start_baseline() {
  show(TuneProgress::Phase::kBaseline);
  TrialRecord trial;
  trial.variant = request_.baseline;
  bool compiled = false;
  auto code = request_.hooks.obtain(request_.baseline, &compiled);
  report_.compiled += compiled ? 1 : 0;
  if (!code) {
    trial.outcome = TrialOutcome::kNotCompiled;
    trial.reason = code.error().message;
  } else {
    trial.code_key = trial.baseline_key = code->artifact.code_key;
    trial.resources = code->artifact.resources;
    trial.toolchain = code->artifact.toolchain.name + " " + code->artifact.toolchain.version;
    CheckAnswer answer = check_code(*code, trial);
    trial.outcome = answer.outcome;
    trial.reason = answer.reason;
  }
  if (cancelled()) return false;
  if (trial.outcome == TrialOutcome::kMeasured) {
    const MeasureAnswer answer = evaluator_.measure({&*code, 1}, {kBaselineRounds, 4});
    report_.device_s += answer.seconds;
    trial.outcome = answer.outcome;
    trial.reason = answer.reason;
    if (answer.outcome == TrialOutcome::kMeasured) {
      Built built{baseline_index_, kBaselineRounds, trial, std::nullopt};
      take_reading(built, answer.comparison, 0);
      trial = built.trial;
    }
  }
  if (cancelled()) return false;
  const bool usable = trial.outcome == TrialOutcome::kMeasured;
  const bool no_memory = trial.outcome == TrialOutcome::kOutOfMemory;
  if (usable) baseline_ = std::move(*code);
  if (!usable) {
    report_.warnings.push_back(fmt::format("the default variant {} cannot be used here ({}: {})",
                                           to_string(trial.variant),
                                           trial_outcome_name(trial.outcome), trial.reason));
  }
  if (no_memory) {
    report_.warnings.push_back(
        "too little memory to tune; the default stays and nothing is recorded as tuned");
    report_.why = "too little memory to tune";
  }
  finish_trial(std::move(trial), baseline_index_, kBaselineRounds, nullptr);
  return !no_memory;
}

// Which budget is spent; none: go on.
std::optional<std::string> TuneSession::exhausted() {
  const TuneBudget& budget = request_.budget;
  if (cancelled()) return "interrupted";
  if (budget.candidates && report_.tried >= *budget.candidates) return "candidates";
  if (budget.wall_s && elapsed_s() > *budget.wall_s * kSearchWall) return "wall";
  if (budget.device_s && report_.device_s > *budget.device_s * kSearchDevice) return "device";
  return std::nullopt;
}

void TuneSession::search() {
  const auto limit = static_cast<std::size_t>(request_.budget.candidates.value_or(0));
  auto searcher =
      make_searcher(request_.search, {request_.space, baseline_index_, limit, request_.seed});
  if (!searcher) return;  // its name was checked before
  while (true) {
    if (auto spent = exhausted()) {
      report_.stopped_by = *spent;
      return;
    }
    std::size_t most = kBatch;
    if (limit > 0) most = std::min(most, limit - static_cast<std::size_t>(report_.tried));
    auto proposals = (*searcher)->next(history_, most);
    if (proposals.empty()) {
      report_.stopped_by = report_.tried + 1 >= static_cast<std::int64_t>(request_.space.size())
                               ? "space"
                               : "search";
      return;
    }
    std::erase_if(proposals, [&](const Proposal& one) { return one.index == baseline_index_; });
    auto batch = compile(proposals);
    if (cancelled()) continue;  // nothing of this batch was tried yet
    check(batch);
    screen(batch);
    for (Built& built : batch) {
      if (report_.interrupted && built.trial.outcome == TrialOutcome::kOther)
        continue;  // not its own end
      finish_trial(std::move(built.trial), built.index, built.rounds,
                   built.code ? &*built.code : nullptr);
    }
  }
}

void TuneSession::finish_trial(TrialRecord trial, std::size_t index, std::size_t rounds,
                               BuiltCode* code) {
  if (!trial.from_records) {
    trial.finished_at = unix_now();
    trial.cache = request_.cache;
  }
  const bool measured = trial.outcome == TrialOutcome::kMeasured;
  const bool first_time = !trial_of_.contains(index);
  const bool is_baseline = report_.trials.empty();
  if (request_.records != nullptr && !trial.from_records) {
    if (auto status = request_.records->add(report_.context, trial); !status) {
      report_.warnings.push_back("a trial could not be recorded: " + status.error().message);
    }
  }
  if (index < request_.space.size())
    history_.push_back({index, rounds, measured, measured ? trial.ratio.median : 0});
  if (first_time) {
    trial_of_[index] = report_.trials.size();
    report_.trials.push_back(trial);
    if (!is_baseline) {
      ++report_.tried;
      report_.failed += measured ? 0 : 1;
      report_.known += trial.from_records ? 1 : 0;
    }
  } else {
    report_.trials[trial_of_[index]] = trial;
  }
  const std::size_t at = trial_of_[index];
  if (measured && !is_baseline) {
    std::erase_if(measured_, [&](const Measured& one) { return one.trial == at; });
    measured_.push_back(
        {at, code != nullptr ? std::optional<BuiltCode>(std::move(*code)) : std::nullopt});
  }
  show(TuneProgress::Phase::kSearching, &report_.trials[at]);
}

void TuneSession::show(TuneProgress::Phase phase, const TrialRecord* trial) {
  if (!request_.progress) return;
  TuneProgress progress;
  progress.phase = phase;
  progress.tried = report_.tried;
  progress.failed = report_.failed;
  progress.known = report_.known;
  const auto size = static_cast<std::int64_t>(request_.space.size()) -
                    (baseline_index_ < request_.space.size() ? 1 : 0);
  progress.total = request_.budget.candidates ? std::min(*request_.budget.candidates, size) : size;
  progress.elapsed_s = elapsed_s();
  const auto now = static_cast<double>(report_.tried - report_.known);
  progress.per_second = progress.elapsed_s > 0 ? now / progress.elapsed_s : 0;
  double best = std::numeric_limits<double>::infinity();
  for (const Measured& one : measured_) {
    const TrialRecord& record = report_.trials[one.trial];
    if (!(record.ratio.median < best)) continue;
    best = record.ratio.median;
    progress.best = to_string(record.variant);
    progress.best_speedup = 1 / best;
  }
  progress.trial = trial;
  request_.progress(progress);
}

}  // namespace opforge
