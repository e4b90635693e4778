// Where candidates are judged: in this process (a worker's), in a worker process, or by a test's
// stand-in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/bench.hpp"
#include "tune/trial.hpp"
#include "verify/subject.hpp"

namespace opforge {

// kMeasured means "all well" here; everything else comes with a reason.
struct CheckAnswer {
  TrialOutcome outcome = TrialOutcome::kMeasured;
  std::string reason;
  double worst_share = 0;  // of the bound
  double seconds = 0;      // that the device was held
};

struct MeasureAnswer {
  TrialOutcome outcome = TrialOutcome::kMeasured;
  std::string reason;
  Comparison comparison;  // readings as the codes given; the first is the incumbent
  double seconds = 0;
};

struct MeasureSpec {
  std::size_t rounds = 7;
  double time_limit_s = 4;  // fewer rounds when spent
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Once, first. kUnavailable and the like when nothing can be judged here.
  virtual Status open() = 0;
  // Is it right? Fresh inputs by `salt`, poisoned outputs, guarded memory.
  virtual CheckAnswer check(const BuiltCode& code, std::uint64_t salt) = 0;
  // Time them in turn against the first one. Outputs are checked again afterwards: a wrong one is
  // rejected in its reading.
  virtual MeasureAnswer measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) = 0;
  // Run the suites for an attestation (unsigned).
  virtual Result<Attestation> prove(const BuiltCode& code) = 0;
};

// What is evaluated on what.
struct EvaluationSetup {
  const Operator* op = nullptr;
  BenchShape shape;
  DeviceInfo device;
  CacheMode cache = CacheMode::kCold;
  bool allow_ptx = false;
};

}  // namespace opforge
