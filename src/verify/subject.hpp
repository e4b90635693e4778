// Compiled code under trial: an artifact and its bytes, loaded on a device and planned for calls.
#pragma once

#include <memory>
#include <string>

#include "artifact/store.hpp"
#include "operator/operator.hpp"
#include "runtime/launcher.hpp"
#include "runtime/plan.hpp"

namespace opforge {

// An artifact with its code bytes: .artifact, .code.
using BuiltCode = Store::Loaded;

// Code loaded on one device. Not thread-safe. The signature must outlive it.
class LoadedSubject {
 public:
  // kUnavailable when no launcher or device here runs it (the reason says which), else the
  // launcher's error.
  static Result<LoadedSubject> load(const Signature& signature, const BuiltCode& code,
                                    const DeviceInfo& device, bool allow_ptx);

  // A plan for these arguments, or `refused`: the guard, precondition or layout that says no.
  struct Planned {
    std::shared_ptr<const Plan> plan;
    std::string refused;
  };
  // `least_items` > 0 overrides the least number of work items that a block function gets (code
  // that runs in chunks of items only). Errors come from loading and resolving the code.
  Result<Planned> plan(std::span<const TensorView> tensors, const ValueMap& attributes,
                       std::int64_t least_items = 0);

  // Run a plan with a workspace full of garbage and wait until it is done. `data` as
  // Plan::execute().
  Status run(const Plan& plan, std::span<void* const> data, StreamHandle stream = nullptr);

  const Artifact& artifact() const { return *artifact_; }
  const Signature& signature() const { return *signature_; }
  const DeviceInfo& device() const { return device_; }
  DeviceApi& api() const { return *api_; }

 private:
  std::shared_ptr<const Artifact> artifact_;
  std::shared_ptr<const std::string> bytes_;
  const Signature* signature_ = nullptr;
  Launcher* launcher_ = nullptr;
  DeviceInfo device_;
  DeviceApi* api_ = nullptr;
  bool allow_ptx_ = false;
};

}  // namespace opforge
