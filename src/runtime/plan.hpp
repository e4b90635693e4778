// A call prepared for one signature. execute() is the hot path.
#pragma once

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
  // Tensor data in signature order, dims and strides as prepared; null only for absent or empty
  // tensors. `workspace` has workspace_bytes() bytes (may be null when 0). kInvalidArgument, before
  // anything is launched, for a null pointer, a pointer less aligned than the code was chosen for,
  // and an output that overlaps another argument.
  Status execute(void* const* tensors, void* workspace, StreamHandle stream) const;

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::size_t tensor_count() const { return tensors_.size(); }
  const Artifact& artifact() const { return *artifact_; }
  Grade grade() const { return grade_; }
  const std::string& why() const { return why_; }       // one line: how it was chosen
  const DeviceInfo& device() const { return device_; }  // of the tensors
  bool launches_nothing() const { return steps_.empty(); }
  std::uintptr_t workspace_align_mask() const { return workspace_mask_; }
  const std::shared_ptr<LoadedCode>& code() const { return code_; }
  // The reference on the host for tensors of a device (development only): copies in, runs, copies
  // back, and waits.
  bool staged() const { return staging_ != nullptr; }

 private:
  friend class PlanBuilder;
  struct Tensor {
    std::uintptr_t align_mask = 0;  // address & mask must be 0
    std::int64_t low_bytes =
        0;  // the bytes touched, relative to the data pointer; equal when empty
    std::int64_t high_bytes = 0;
    bool required = false;  // data must not be null
    bool written = false;
  };
  struct Conflict {  // an output and another tensor that must not overlap
    std::uint32_t output = 0, other = 0;
    bool same_allowed = false;  // the very same memory is declared fine
  };
  Status check_pointers(void* const* tensors) const;
  friend Status keep_if_captured(const Plan& plan, StreamHandle stream);
  Status execute_staged(void* const* tensors, StreamHandle stream) const;
  Status launch_steps(void* const* tensors, void* workspace, StreamHandle stream) const;

  std::vector<PreparedStep> steps_;  // none: zero-size call, nothing to launch
  std::vector<Tensor> tensors_;
  std::vector<Conflict> conflicts_;
  std::vector<TensorView> views_;   // as prepared; their data pointers are not used
  std::vector<std::string> names_;  // of tensors, for messages
  std::string op_;
  Launcher* launcher_ = nullptr;
  DeviceApi* staging_ = nullptr;
  int ordinal_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::uintptr_t workspace_mask_ = 0;
  Grade grade_ = Grade::kDefault;
  std::string why_;
  DeviceInfo device_;
  std::shared_ptr<const Artifact> artifact_;
  std::shared_ptr<LoadedCode> code_;
};

// A plan for one artifact, without dispatch: the artifact's guards are checked (kUnavailable with
// the guard's reason), its code is loaded or found in the cache of loaded code, its symbols are
// resolved. `code` is not read when it is loaded already. `device` is what the artifact is launched
// on; the tensors must be there.
Result<std::shared_ptr<const Plan>> build_plan(const Signature& signature, const BoundCall& call,
                                               std::shared_ptr<const Artifact> artifact,
                                               const std::string& code, Launcher& launcher,
                                               const DeviceInfo& device, bool allow_ptx);

// Keeps the code of `plan` loaded for ever if `stream` is being captured: the graph may launch it
// after the plan is gone.
Status keep_if_captured(const Plan& plan, StreamHandle stream);

// Evaluate a launch record for a bound call: grids, arguments, patches. Shared by plans and by the
// tests of launch records.
struct PreparedLaunch {
  std::vector<PreparedStep> steps;
  std::size_t workspace_bytes = 0;
};
Result<PreparedLaunch> prepare_launch(const Signature& signature, const BoundCall& call,
                                      const LaunchRecord& record, const ValueMap& values,
                                      const DeviceInfo& device);

}  // namespace opforge
