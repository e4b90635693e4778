// The generic suites: one artifact on one device over the declaration's cases and hostile inputs,
// judged against the double reference with the declaration's own bound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "verify/inputs.hpp"
#include "verify/subject.hpp"

namespace opforge {

// Part of every proof key: raise it whenever the suites check something new.
inline constexpr std::string_view kSuiteVersion = "1";

enum class Budget : std::uint8_t { kQuick, kFull };

enum class Outcome : std::uint8_t { kPassed, kFailed, kRefused, kSkipped };
std::string_view outcome_name(Outcome outcome);

struct TrialResult {
  std::string suite;  // "cases", "boundaries", "layouts", "hostile", "attributes", "optional",
                      // "aliasing", "huge", "pages", "bitwise", "gates"
  std::string trial;  // Trial::name
  Outcome outcome = Outcome::kPassed;
  std::string reason;  // failed, refused, skipped: why
  double worst_ulps = 0;
  double worst_share = 0;  // of the bound
  std::string dtypes;      // "T=bf16"
};

struct SuiteOptions {
  Tier tier = Tier::kFast;  // what is to be shown; at most what the kernel offers
  Budget budget = Budget::kQuick;
  std::uint64_t salt =
      0;  // 0: inputs follow from the code digest alone, so that a proof can be repeated
  bool allow_ptx = false;
  bool stop_at_first_failure = false;
  std::size_t most_elements = 0;  // largest tensor of a trial; 0: by device and budget
  std::vector<ValueMap>
      extra_dims;           // shapes tried beside the declaration's cases (the tuner's own)
  bool only_extra = false;  // these shapes and nothing else: a tuner's quick look at a candidate
  std::function<void(const TrialResult&)> progress;
  std::function<bool()> cancelled;
};

struct SuiteReport {
  std::string op, kernel, variant, backend, target, device_model;
  Tier tier = Tier::kFast;
  std::vector<TrialResult> results;
  std::int64_t passed = 0, failed = 0, refused = 0, skipped = 0;
  double worst_ulps = 0, worst_share = 0;
  std::string worst_trial;
  double seconds = 0;
  bool ok() const;                     // nothing failed, and something was computed and right
  std::int64_t values_passed() const;  // passed trials that ran the code
  std::string first_failure()
      const;  // "suite trial: reason"; empty when ok; says so when nothing was run at all
};
std::string report_to_json(const SuiteReport& report);

// The trials of an operator for these dtypes and baked attributes, in the order of running.
struct SuiteTrial {
  std::string suite;
  Trial trial;
};
std::vector<SuiteTrial> trials_for(const Operator& op, const Artifact& artifact,
                                   const DeviceInfo& device, const SuiteOptions& options);

// Runs all of them. Failures of the code are in the report; an error only when nothing can be tried
// at all: kUnavailable (no device or launcher for it here), kCancelled, or the loader's error.
Result<SuiteReport> run_suites(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                               const SuiteOptions& options);

}  // namespace opforge
