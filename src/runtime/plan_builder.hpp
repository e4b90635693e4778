// From a chosen artifact to a plan: evaluates, loads, resolves. Dispatch and build_plan() share it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/plan.hpp"

namespace opforge {

class PlanBuilder {
 public:
  const Signature& signature;
  const BoundCall& call;
  std::shared_ptr<const Artifact> artifact;  // keeps alive what it belongs to
  Launcher& launcher;
  const DeviceInfo& device;                   // where the code runs
  std::function<Result<std::string>()> code;  // asked only when the code is not loaded yet
  bool allow_ptx = false;
  Grade grade = Grade::kDefault;
  std::string why;
  DeviceApi* staging =
      nullptr;  // set: the tensors are on this API's device, the code runs on the host
  const DeviceInfo* tensor_device = nullptr;  // null: `device`

  // kInvalidArgument: the launch record does not fit this call. Others: from loading and resolving.
  Result<std::shared_ptr<const Plan>> build() const;

 private:
  void describe_tensors(Plan& plan) const;
};

// Yes, or the reason of the first guard that does not hold for this call and these values.
class Evaluator;
Support check_guards(const LaunchRecord& record, Evaluator& evaluator);

// Nothing of any output exists, so there is nothing to launch.
bool outputs_are_empty(const Signature& signature, const BoundCall& call);

}  // namespace opforge
