// What is tuned for, and what became of each candidate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifact/artifact.hpp"
#include "measure/measure.hpp"

namespace opforge {

// All that a measured choice depends on beside the code: a record of another context is never used.
// The code's own key (source, toolchain, target) is kept with each trial and choice.
struct TuneContext {
  std::string op;
  ValueMap dims;
  std::string layout;  // layout class of the call, as dispatch tables record it
  DTypeCombo dtypes;
  ValueMap attributes;  // all of them, defaults filled in
  Contract contract = Tier::kFast;
  std::string target;
  std::string device_model;
  int driver_version = 0;
  Digest digest() const;
  std::string describe()
      const;  // "norm.rms_norm M=4096,N=4096 T=bf16 FAST on NVIDIA H200 (sm_90a)"
};

enum class TrialOutcome : std::uint8_t {
  kMeasured,      // right, and timed
  kNotCompiled,   // the toolchain failed
  kRefused,       // a guard, a precondition or a resource limit of the device says no
  kWrongResult,   // outside the bound, outputs left unwritten, or memory round the tensors changed
  kNaN,           // NaN where the reference has none
  kNonsenseTime,  // zero, negative or NaN times, or faster than the floor
  kCrash,         // the worker was killed by a signal
  kAbort,         // by SIGABRT
  kHang,          // the time limit was spent
  kNoAnswer,      // the worker exited, or answered with something that is no answer
  kDeviceError,   // the driver reported an error; the worker's device context is lost
  kOutOfMemory,   // over the watched limit, or the device had too little
  kOther,
};
std::string_view trial_outcome_name(TrialOutcome outcome);  // "measured", "not_compiled", ...
Result<TrialOutcome> parse_trial_outcome(std::string_view name);
// Would the same code meet the same end again? Others (memory, device, toolchain trouble) are tried
// again on resuming.
bool is_final(TrialOutcome outcome);

// One candidate, tried.
struct TrialRecord {
  Variant variant;
  Digest code_key;        // zero when not even that could be made
  std::string toolchain;  // "gxx 12.2"
  Resources resources;
  TrialOutcome outcome = TrialOutcome::kOther;
  std::string reason;                  // empty when measured
  Digest baseline_key;                 // what the ratio is against
  Summary time_us;                     // of one run, screening rounds
  Summary ratio;                       // candidate / baseline by paired rounds
  double noise = 0;                    // of the A/A pair of the same rounds
  CacheMode cache = CacheMode::kCold;  // how it was timed
  std::uint64_t salt = 0;              // of the inputs it was checked with
  std::int64_t finished_at = 0;        // Unix seconds
  bool from_records = false;           // not tried now: known from an earlier run
};

// The end of a tune: the variant to serve this context with.
struct ChoiceRecord {
  TuneContext context;
  Variant variant;
  Digest code_key, baseline_key;
  std::string toolchain;
  bool adopted = false;  // false: the baseline stays
  double median_us = 0, baseline_us = 0;
  double ratio_p80 = 1;                // of the confirmation: variant / baseline
  double noise = 0;                    // of its A/A pair
  CacheMode cache = CacheMode::kCold;  // a choice by warm runs says nothing about cold ones
  double margin =
      0;  // median of the next best finalist over this one, minus 1; 0 when there was none
  std::int64_t tried = 0, space = 0;  // candidates tried, and in all
  std::int64_t finished_at = 0;
};
TableEntry table_entry(const ChoiceRecord& choice);

}  // namespace opforge
