// Loads OpenCL binaries and launches their kernels.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/opencl/program.hpp"

namespace opforge::ocl {

// One kernel of a program. The arguments of a cl_kernel are state, so a launch has one to itself:
// several are kept, and a launch takes a free one.
class Kernel {
 public:
  static constexpr std::size_t kCopies = 4;
  explicit Kernel(const Icd& icd) : icd_(icd) {}
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  Status create(cl_program program, const std::string& symbol);

  // A free copy, waited for only while as many threads launch this kernel at once.
  class Use {
   public:
    explicit Use(Kernel& kernel);
    ~Use() { kernel_.busy_[at_].store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    cl_kernel get() const { return kernel_.copies_[at_]; }

   private:
    Kernel& kernel_;
    std::size_t at_ = 0;
  };
  cl_kernel first() const { return copies_[0]; }

 private:
  const Icd& icd_;
  std::array<cl_kernel, kCopies> copies_{};
  std::array<std::atomic<bool>, kCopies> busy_{};
};

class OpenClCode : public LoadedCode {
 public:
  std::string variant;  // for messages
  std::unique_ptr<Program> program;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;  // before the program in destruction
};

class OpenClLauncher : public Launcher {
 public:
  explicit OpenClLauncher(OpenClDevices& devices) : devices_(devices) {}
  std::string_view name() const override { return "opencl"; }
  DeviceKind device_kind() const override { return DeviceKind::kOpenCl; }
  bool accepts(CodeKind kind) const override { return kind == CodeKind::kOpenClBinary; }
  DeviceApi& device_api() override { return devices_; }
  std::vector<std::string> details() override { return devices_.details(); }
  // The bytes are checked against the artifact's digest (drivers accept damaged binaries). A binary
  // of another device or driver, or one that the driver does not take, is built again from its
  // source, in development mode or with `allow_ptx` (the caller lets the driver compile) and never
  // in a sealed process; else kIncompatible, with both sides named.
  Result<std::shared_ptr<LoadedCode>> load(const Artifact& artifact, const std::string& code,
                                           int ordinal, bool allow_ptx) override;
  // Grid and block are work-groups and work-items of a group. Refuses what the kernel or the device
  // does not take, by name.
  Status resolve(LoadedCode& code, const std::string& symbol, int ordinal,
                 PreparedStep& step) override;
  Status launch(const PreparedStep& step, void* const* tensors, void* workspace, int ordinal,
                StreamHandle stream) override;

 private:
  OpenClDevices& devices_;
};

}  // namespace opforge::ocl
