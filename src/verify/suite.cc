#include "verify/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "verify/bitwise.hpp"
#include "verify/judge.hpp"
#include "verify/pages.hpp"
#include "verify/proof.hpp"

namespace opforge {
namespace {

class SuiteRun {
 public:
  SuiteRun(const Operator& op, LoadedSubject& subject, const SuiteOptions& options)
      : op_(op), subject_(subject), options_(options), bound_(op.tolerances.at(options.tier)) {}

  // Nothing when the trial has no meaning for this operator.
  std::optional<TrialResult> run(const SuiteTrial& asked) {
    result_ = {
        asked.suite, asked.trial.name, Outcome::kPassed, {}, 0, 0, to_string(asked.trial.dtypes)};
    if (asked.suite == "bitwise" || asked.suite == "pages") {
      special_trial(asked);
      return result_;
    }
    auto memory = TrialMemory::make(op_, asked.trial, subject_.api(), subject_.device().device);
    if (!memory) {
      if (memory.error().code == Code::kUnavailable) return std::nullopt;
      const bool no_memory = memory.error().code == Code::kOutOfMemory;
      finish(no_memory ? Outcome::kSkipped : Outcome::kFailed, memory.error().message);
      return result_;
    }
    values(*memory);
    return result_;
  }

  // The device is in no state to go on.
  bool broken() const { return broken_; }

 private:
  void finish(Outcome outcome, std::string reason) {
    result_.outcome = outcome;
    result_.reason = std::move(reason);
  }

  void special_trial(const SuiteTrial& asked) {
    const auto problem = asked.suite == "pages" ? touched_outside(subject_, op_, asked.trial)
                                                : bitwise_difference(subject_, op_, asked.trial);
    if (!problem) {
      finish(problem.error().code == Code::kUnavailable ? Outcome::kRefused : Outcome::kFailed,
             problem.error().message);
    } else if (!problem->empty()) {
      finish(Outcome::kFailed, *problem);
    }
  }

  void values(TrialMemory& memory) {
    auto planned = subject_.plan(memory.views(), memory.trial().attributes);
    if (!planned) return finish(Outcome::kFailed, planned.error().message);
    if (!planned->plan) return finish(Outcome::kRefused, planned->refused);
    // An output that is NaN by right could be one that was never written: a second run poisons with
    // something else.
    const int runs = special(memory.trial().data) ? 2 : 1;
    for (int which = 0; which < runs && result_.outcome == Outcome::kPassed; ++which) {
      if (auto status = memory.reset(which); !status)
        return finish(Outcome::kFailed, status.error().message);
      if (auto status = subject_.run(*planned->plan, memory.data()); !status) {
        broken_ = status.error().code == Code::kDriver;
        return finish(Outcome::kFailed, status.error().message);
      }
      if (auto status = memory.unchanged(); !status)
        return finish(Outcome::kFailed, status.error().message);
      const auto verdict = judge(op_, memory, bound_);
      if (!verdict) return finish(Outcome::kFailed, verdict.error().message);
      result_.worst_ulps = std::max(result_.worst_ulps, verdict->worst_ulps);
      result_.worst_share = std::max(result_.worst_share, verdict->worst_share);
      if (!verdict->problem.empty()) finish(Outcome::kFailed, verdict->problem);
    }
  }

  static bool special(Data data) {
    return data == Data::kOneNaN || data == Data::kOneInfinity || data == Data::kNegInfinity ||
           data == Data::kBothInfinities || data == Data::kAllNaN;
  }

  const Operator& op_;
  LoadedSubject& subject_;
  const SuiteOptions& options_;
  const Bound bound_;
  TrialResult result_;
  bool broken_ = false;
};

void count(SuiteReport& report, const TrialResult& result) {
  switch (result.outcome) {
    case Outcome::kPassed:
      ++report.passed;
      break;
    case Outcome::kFailed:
      ++report.failed;
      break;
    case Outcome::kRefused:
      ++report.refused;
      break;
    case Outcome::kSkipped:
      ++report.skipped;
      break;
  }
  report.worst_ulps = std::max(report.worst_ulps, result.worst_ulps);
  if (result.worst_share > report.worst_share || report.worst_trial.empty()) {
    report.worst_share = std::max(report.worst_share, result.worst_share);
    report.worst_trial = result.suite + " " + result.trial;
  }
}

}  // namespace

Result<SuiteReport> run_suites(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                               const SuiteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (!satisfies(code.artifact.variant.tier, options.tier)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{} offers {}, which does not promise {}", to_string(code.artifact.variant),
                    tier_name(code.artifact.variant.tier), tier_name(options.tier)),
        "verify");
  }
  OPFORGE_ASSIGN(LoadedSubject subject,
                 LoadedSubject::load(op.signature, code, device, options.allow_ptx));
  const Variant& variant = code.artifact.variant;
  SuiteReport report{op.signature.name, variant.kernel, to_string(variant), variant.backend,
                     variant.target,    device.model,   options.tier};
  SuiteRun suite(op, subject, options);
  const auto keep = [&](TrialResult result) {
    count(report, result);
    if (options.progress) options.progress(result);
    report.results.push_back(std::move(result));
  };
  if (options.tier == Tier::kDeterministic) {
    TrialResult gates{"gates", "static", Outcome::kPassed, {}, 0, 0, to_string(variant.dtypes)};
    if (auto status = deterministic_gates(op, code.artifact, code.code); !status) {
      gates.outcome = Outcome::kFailed;
      gates.reason = status.error().message;
    }
    keep(std::move(gates));
  }
  for (const SuiteTrial& trial : trials_for(op, code.artifact, device, options)) {
    if (options.cancelled && options.cancelled())
      return fail(Code::kCancelled, "verification was interrupted", "verify");
    if (options.stop_at_first_failure && report.failed > 0) break;
    if (auto result = suite.run(trial)) keep(std::move(*result));
    if (suite.broken()) break;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace opforge
