// OpenCL C kernels to binaries, by the driver of a device that is here.
#pragma once

#include <mutex>
#include <optional>
#include <set>

#include "backends/opencl/device.hpp"
#include "backends/opencl/source.hpp"

namespace opforge::ocl {

class OpenClToolchain : public Toolchain {
 public:
  explicit OpenClToolchain(OpenClDevices& devices) : devices_(devices) {}
  std::string_view backend() const override { return "opencl"; }
  bool serves(const Target& target) const override;
  Support available() override;
  // Of all platforms here: their versions (which name the compiler in them) and driver libraries.
  Result<ToolchainStamp> stamp() override;
  // kUnavailable when no device of the target's platform is here.
  Status fingerprint(const CompileRequest& request, Fingerprint& into) override;
  Result<Compiled> compile(const CompileRequest& request) override;

 private:
  Status warm_up(const Icd& icd, const OpenClDevice& device);

  OpenClDevices& devices_;
  std::mutex warming_;
  std::set<int> warm_;  // ordinals
  std::mutex mutex_;
  std::optional<ToolchainStamp> stamp_;
};

}  // namespace opforge::ocl
