// Tuning jobs: from an operator and a shape to a request with its search space, baseline and hooks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "operator/operator.hpp"
#include "tune/tuner.hpp"

namespace opforge {

struct TuneJob {
  const Operator* op = nullptr;
  BenchShape shape;
  std::vector<std::string> backends;  // whose kernels compete; empty: all that run on `device`
  Contract contract = Tier::kFast;
  DeviceInfo device;
  // Candidates are what this pack holds (built by `opforge build --candidates` where the compilers are), and nothing is
  // compiled; null: compiled here. The code that serves without a measurement must be among them.
  std::shared_ptr<ArtifactSource> pack;
};

// The space: every combination of tunables of every kernel at least as strict as the contract whose guards hold for
// contiguous, aligned tensors. The baseline: what dispatch takes without a measurement. kUnavailable when no kernel serves
// the device, with the reasons. `store` must outlive the request.
Result<TuneRequest> tune_request(const TuneJob& job, Store& store);

}  // namespace opforge
