// What the suites found, as text and JSON.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "verify/suite.hpp"

namespace opforge {
namespace {

// JSON has no infinity: a wrong special value is written as null.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "unknown";
}

bool SuiteReport::ok() const { return failed == 0 && values_passed() > 0; }

std::int64_t SuiteReport::values_passed() const {
  std::int64_t out = 0;
  for (const TrialResult& result : results)
    out += result.outcome == Outcome::kPassed && result.suite != "gates";
  return out;
}

std::string SuiteReport::first_failure() const {
  for (const TrialResult& result : results) {
    if (result.outcome == Outcome::kFailed)
      return fmt::format("{} {}: {}", result.suite, result.trial, result.reason);
  }
  if (values_passed() > 0) return {};
  for (const TrialResult& result : results) {
    if (result.outcome == Outcome::kRefused)
      return fmt::format("every trial was refused, the first ({}): {}", result.trial,
                         result.reason);
  }
  return "no trial could be run";
}

std::string report_to_json(const SuiteReport& report) {
  nlohmann::ordered_json out;
  out["op"] = report.op;
  out["kernel"] = report.kernel;
  out["variant"] = report.variant;
  out["backend"] = report.backend;
  out["target"] = report.target;
  out["device"] = report.device_model;
  out["tier"] = tier_name(report.tier);
  out["ok"] = report.ok();
  out["passed"] = report.passed;
  out["failed"] = report.failed;
  out["refused"] = report.refused;
  out["skipped"] = report.skipped;
  out["worst_ulps"] = number(report.worst_ulps);
  out["worst_share_of_bound"] = number(report.worst_share);
  out["worst_trial"] = report.worst_trial;
  out["seconds"] = report.seconds;
  auto& results = out["results"] = nlohmann::ordered_json::array();
  for (const TrialResult& result : report.results) {
    results.push_back({{"suite", result.suite},
                       {"trial", result.trial},
                       {"dtypes", result.dtypes},
                       {"outcome", outcome_name(result.outcome)},
                       {"reason", result.reason},
                       {"worst_ulps", number(result.worst_ulps)},
                       {"worst_share_of_bound", number(result.worst_share)}});
  }
  return out.dump(2);
}

}  // namespace opforge
