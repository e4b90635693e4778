// Loads cubins and PTX through the CUDA driver and launches them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/cuda/device.hpp"
#include "runtime/launcher.hpp"

namespace opforge::cu {

// One image in the driver. With the library interface (CUDA 12) it is loaded once and runs on any
// device; before that it is a module of one device's primary context.
class CudaCode : public LoadedCode {
 public:
  CudaCode(const Driver& driver, CudaDeviceApi& devices) : driver_(driver), devices_(devices) {}
  ~CudaCode() override;  // unloads; never throws

  const Driver& driver_;
  CudaDeviceApi& devices_;
  Library library = nullptr;
  Module module = nullptr;
  int module_ordinal = 0;
  std::string variant;  // for messages
  std::string symbols;  // "a, b": what the image offers
  std::mutex mutex;     // of attributes that are kept by the driver for each kernel and device
  std::map<std::pair<void*, int>, std::int64_t> dynamic_shared;  // largest allowed so far
};

class CudaLauncher : public Launcher {
 public:
  explicit CudaLauncher(CudaDeviceApi& devices) : devices_(devices) {}
  std::string_view name() const override { return "cuda"; }
  DeviceKind device_kind() const override { return DeviceKind::kCuda; }
  bool accepts(CodeKind kind) const override {
    return kind == CodeKind::kCubin || kind == CodeKind::kPtx;
  }
  DeviceApi& device_api() override { return devices_; }
  std::vector<std::string> details() override;
  // Refuses, with both sides named: another architecture than the device's, an image that is not
  // what the artifact says, a driver older than artifact.min_driver, PTX without `allow_ptx` or in
  // a sealed process.
  Result<std::shared_ptr<LoadedCode>> load(const Artifact& artifact, const std::string& code,
                                           int ordinal, bool allow_ptx) override;
  Status resolve(LoadedCode& code, const std::string& symbol, int ordinal,
                 PreparedStep& step) override;
  Status launch(const PreparedStep& step, void* const* tensors, void* workspace, int ordinal,
                StreamHandle stream) override;

 private:
  CudaDeviceApi& devices_;
  std::atomic<const Driver*> driver_ =
      nullptr;  // set by load(): launch() reads it without asking the device API
};

// Grid, block, cluster, argument sizes of a step against what the driver and the device take, as
// named errors.
Status check_launch_limits(const PreparedStep& step, const DeviceInfo& device,
                           std::string_view kernel);

}  // namespace opforge::cu
