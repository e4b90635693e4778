// A call prepared for one signature. execute() is the hot path.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/launcher.hpp"

namespace opforge {

enum class Grade : std::uint8_t { kExact, kNearest, kDefault, kReference };
std::string_view grade_name(Grade grade);

class Plan {
 public:
  // Tensor data in signature order, dims and strides as prepared; null only for absent or empty tensors. `workspace` has
  // workspace_bytes() bytes (may be null when 0). Pointers less aligned than those prepared for are refused.
  Status execute(void* const* tensors, void* workspace, StreamHandle stream) const;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  const Artifact& artifact() const { return *artifact_; }
  Grade grade() const { return grade_; }
  const std::string& why() const { return why_; }        // one line: how it was chosen
  const DeviceInfo& device() const { return device_; }

 private:
  friend class PlanBuilder;
  std::vector<PreparedStep> steps_;
  std::vector<std::uintptr_t> align_masks_;              // by tensor: address & mask must be 0
  std::vector<std::uint8_t> required_;                   // by tensor: data must not be null
  Launcher* launcher_ = nullptr;
  int ordinal_ = 0;
  bool empty_ = false;                                   // zero-size call: nothing to launch
  std::size_t workspace_bytes_ = 0;
  Grade grade_ = Grade::kDefault;
  std::string why_;
  DeviceInfo device_;
  std::shared_ptr<const Artifact> artifact_;
  std::vector<std::shared_ptr<LoadedCode>> code_;
  std::shared_ptr<const void> keep_alive_;               // the section and its source
};

// Evaluate a launch record for a bound call: grids, arguments, patches. Shared by plans and by the tests of launch records.
struct PreparedLaunch { std::vector<PreparedStep> steps; std::size_t workspace_bytes = 0; };
Result<PreparedLaunch> prepare_launch(const Signature& signature, const BoundCall& call, const LaunchRecord& record,
                                      const ValueMap& values, const DeviceInfo& device);

}  // namespace opforge
