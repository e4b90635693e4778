// The test kit: every generic suite for one operator, from one call. For operators outside the tree
// above all.
#pragma once

#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "measure/bench.hpp"
#include "verify/suite.hpp"

namespace opforge {

struct TestKitOptions {
  std::vector<std::string> backends;  // empty: all of the operator's kernels
  Budget budget = Budget::kQuick;
  bool correctness = true, api_errors = true, benchmarks = true;
  std::function<void(std::string_view line)> progress;
  std::function<bool()> cancelled;
};

struct ApiErrorResult {
  std::string what;  // "wrong dtype of x"
  bool passed = false;
  std::string message;  // what the call answered
};

struct BenchResult {
  std::string shape, dtypes, device;
  Comparison comparison;
  std::string skipped;  // why not run; empty: run
};

struct TestKitReport {
  std::string op;
  std::vector<SuiteReport>
      suites;  // one for each variant that ran, at the tier that its kernel claims
  std::vector<std::string> not_run;  // "kernel@target dtypes: reason" (no device, no toolchain)
  std::vector<std::string> not_compiled;  // compile failures
  std::vector<ApiErrorResult> api_errors;
  std::vector<BenchResult> benchmarks;
  bool ok() const;
  std::string first_failure() const;
};
std::string test_kit_to_json(const TestKitReport& report);

// Calls that are wrong in every way that the declaration lets one think of: each must be refused
// with a message that names the argument.
std::vector<ApiErrorResult> try_wrong_calls(const Operator& op);

// Compiles every kernel of `op` (default variants of its test cases) for what this machine can run
// and runs the suites, calls it wrongly, and times the bench cases (kQuick: those below 64 MB). An
// error only when interrupted or when the store cannot be used.
Result<TestKitReport> run_test_kit(const Operator& op, Store& store,
                                   const TestKitOptions& options = {});

}  // namespace opforge
