// OpenCL devices: their facts, contexts, queues, and shared virtual memory. Tensors on them are
// pointers of shared virtual memory (OpenCL 2.0), so that views and offsets are plain addresses as
// everywhere else; devices without it are not used.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/opencl/icd.hpp"
#include "runtime/launcher.hpp"

namespace opforge::ocl {

// What code was compiled for. A binary is good for exactly this.
struct Identity {
  std::string platform;  // what the platform calls itself, in lower case: "pocl"
  std::string device, driver, platform_version;
  friend bool operator==(const Identity&, const Identity&) = default;
};
std::string to_string(const Identity& identity);  // for messages

struct OpenClDevice {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  Identity identity;
  DeviceInfo info;
  bool host_memory = false;  // it reads and writes any memory of the host
  bool exact_division = false;
  std::size_t group_limit = 0;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;  // in order: the default stream
};

inline constexpr std::size_t kMostDevices = 64;

class OpenClDevices : public DeviceApi {
 public:
  Support available() override;
  std::vector<DeviceInfo> devices() override;
  Result<void*> allocate(int ordinal, std::size_t bytes, StreamHandle stream) override;
  void release(int ordinal, void* memory, StreamHandle stream) override;
  Status copy(int ordinal, void* to, const void* from, std::size_t bytes) override;
  Status synchronize(int ordinal, StreamHandle stream) override;
  Result<StreamState> stream_state(int ordinal, StreamHandle stream) override;
  Timer* timer() override;

  // The device with its context and queue, made on first use. Entries stay where they are.
  Result<const OpenClDevice*> open(int ordinal);
  // The same without a lock, for devices that were opened before; else null.
  const OpenClDevice* opened(int ordinal) const {
    return ready_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
  }
  // The first device of a platform ("pocl"), without a context. kUnavailable names what is here.
  Result<const OpenClDevice*> of_platform(std::string_view platform);
  std::vector<std::string> details();

 private:
  void start();
  void read_platform(const Icd& icd, cl_platform_id platform);

  std::once_flag started_;
  std::vector<std::unique_ptr<OpenClDevice>> devices_;
  std::vector<std::string> refused_;  // devices that cannot be used, and why
  std::string why_none_;
  std::mutex opening_;
  std::array<std::atomic<const OpenClDevice*>, kMostDevices> ready_{};
};

OpenClDevices& process_devices();

// The queue of a stream: the device's own for null.
inline cl_command_queue queue_of(const OpenClDevice& device, StreamHandle stream) {
  return stream == nullptr ? device.queue : static_cast<cl_command_queue>(stream);
}
// In-order, with time stamps.
Result<cl_command_queue> make_queue(const Icd& icd, const OpenClDevice& device,
                                    bool out_of_order = false);

}  // namespace opforge::ocl
