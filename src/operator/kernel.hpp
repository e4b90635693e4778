// A kernel: one implementation of an operator in one language, at one tier.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/precondition.hpp"
#include "operator/launch.hpp"
#include "operator/signature.hpp"

namespace opforge {

// A compile-time parameter of the source with the values that it may take. `initial` gives the
// default as an expression over dims, attributes, dtype variables and earlier tunables; evaluated
// values are clamped to the nearest listed one.
struct Tunable {
  std::string name;                  // upper case, e.g. "THREADS"
  std::vector<std::int64_t> values;  // ascending
  std::string initial;               // expr
  // True when another value may give other bits. In a DETERMINISTIC kernel such a tunable always
  // takes `initial`, which then may use reduced dims, dtype variables and baked attributes only: a
  // declaration error otherwise.
  bool changes_bits = false;
  // A specialisation is not searched: every value is built and the first in
  // `values_by_preference()` whose guards hold is taken. Larger is more special. It may not change
  // bits.
  bool specialisation = false;
};

// The default of a tunable at a call: `initial` evaluated and clamped to the nearest of `values`
// (the smaller of two equally near; ascending, not empty). An empty `initial` is the first value.
// Shared by dispatch, builds and the tuner, so that all agree on which variant is the default.
Result<std::int64_t> initial_value(const Tunable& tunable, const SymbolLookup& lookup);
Result<std::int64_t> initial_value(std::string_view initial, std::span<const std::int64_t> values,
                                   const SymbolLookup& lookup);
std::int64_t nearest_listed(std::span<const std::int64_t> values, std::int64_t wanted);

// A device that a kernel can run on. Architectures are vendor numbers (90 for sm_90a, 80 for
// sm_80); 0 = no limit.
struct Requirement {
  DeviceKind device = DeviceKind::kCpu;
  int min_arch = 0;
  int max_arch = 0;
};

enum class ReasonKind : std::uint8_t { kNone, kMissingPrimitive, kPerformanceGap };

// Why a kernel is in a lower-level language although a higher one serves the target.
struct LowLevelReason {
  ReasonKind kind = ReasonKind::kNone;
  std::string text;       // which primitive, or what the gap is
  std::string benchmark;  // kPerformanceGap: file under bench/results that shows it
};

struct KernelDecl {
  std::string id;           // unique in its operator, e.g. "rms_norm.cuda.row"
  std::string description;  // one line; shown by `opforge show`
  std::string backend;      // "cpu", "cuda", "reference", ...
  Tier tier = Tier::kFast;
  std::vector<std::string>
      sources;                     // file names in the operator's folder; the first holds the entry
  std::vector<DTypeCombo> dtypes;  // empty: all of the signature's
  std::vector<Tunable> tunables;
  std::vector<std::string>
      constraints;  // expr over tunables and dtype variables: combinations that make sense
  std::vector<Requirement> requires_any;  // joined by OR; empty: anywhere the backend runs
  std::vector<Precondition> preconditions;
  std::vector<std::string> options;  // extra compiler options; part of the code key
  LowLevelReason reason;
  LaunchRecord launch;
};

}  // namespace opforge
