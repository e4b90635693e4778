// CUDA devices: their facts, primary contexts, stream-ordered memory, streams.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "runtime/launcher.hpp"

namespace opforge::cu {

inline constexpr int kMaxDevices = 64;

// What stands in for a fact that the driver reports as 0 (seen in containers): safe for sizes that
// are derived from it.
inline constexpr std::int64_t kDefaultSmCount = 1;  // a grid sized from it is small, never empty
inline constexpr std::int64_t kDefaultSharedBytes = 48 * 1024;  // what every GPU has without asking
inline constexpr std::int64_t kDefaultL2Bytes =
    128LL << 20;  // above every L2: a flush of that size flushes
inline constexpr std::int64_t kDefaultWarpSize = 32;

class CudaDeviceApi : public DeviceApi {
 public:
  using DriverSource = std::function<Result<const Driver*>()>;
  // `source` is asked once, on first use.
  explicit CudaDeviceApi(DriverSource source = process_driver) : source_(std::move(source)) {}
  ~CudaDeviceApi() override;

  Support available() override;
  std::vector<DeviceInfo> devices() override;
  Result<void*> allocate(int ordinal, std::size_t bytes, StreamHandle stream) override;
  void release(int ordinal, void* memory, StreamHandle stream) override;
  Status copy(int ordinal, void* to, const void* from, std::size_t bytes) override;
  Status synchronize(int ordinal, StreamHandle stream) override;
  Result<StreamState> stream_state(int ordinal, StreamHandle stream) override;

  Timer* timer() override;

  Result<const Driver*> driver();
  // The facts of a device; kNotFound names the ordinals that there are.
  Result<const DeviceInfo*> info(int ordinal);
  // The primary context of a device, retained on first use and kept.
  Result<Context> primary(int ordinal);
  Context primary_if_ready(int ordinal) const {
    return contexts_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
  }

 private:
  struct Pending {
    int ordinal;
    void* memory;
  };
  void start();
  std::string read_device(const Driver& driver, int ordinal);
  Status free_now(int ordinal, void* memory, StreamHandle stream);
  void free_pending();

  DriverSource source_;
  std::once_flag started_;
  Result<const Driver*> driver_ = nullptr;
  std::string refusal_;  // why no device can be used; empty when one can
  std::vector<DeviceInfo> devices_;
  std::array<bool, kMaxDevices> pools_{};  // memory pools: stream-ordered allocation
  std::array<std::atomic<Context>, kMaxDevices> contexts_{};
  std::mutex mutex_;              // of making contexts, and of pending_
  std::vector<Pending> pending_;  // released under capture, when the driver may not be called
  std::atomic<bool> has_pending_ = false;
  std::unique_ptr<Timer> timer_;  // made with the devices
};

// Makes `primary` current for the calling thread unless a context of the same device is current
// already, and puts back what was there. A few nanoseconds when nothing has to change.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context primary, int ordinal) : driver_(driver) {
    Context current = nullptr;
    result_ = driver.context_current(&current);
    if (result_ == kSuccess && current == primary) [[likely]]
      return;
    enter(primary, ordinal, current);
  }
  ~ContextScope() {
    Context popped = nullptr;
    if (pushed_) driver_.context_pop(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  CuResult result() const { return result_; }

 private:
  void enter(Context primary, int ordinal, Context current);
  const Driver& driver_;
  CuResult result_ = kSuccess;
  bool pushed_ = false;
};

// Events, graphs and streams of `devices`, which must outlive it.
std::unique_ptr<Timer> make_timer(CudaDeviceApi& devices);

// The device API of this process, shared by the launcher and the timer.
CudaDeviceApi& process_devices();

}  // namespace opforge::cu
