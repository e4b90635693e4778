#include "backends/cuda/device.hpp"

#include <fmt/format.h>

namespace opforge::cu {
namespace {

constexpr const char* kWhere = "backends/cuda/device";

DevicePtr address(const void* memory) { return reinterpret_cast<DevicePtr>(memory); }

bool is_capture_error(CuResult result) {
  return result >= kCaptureUnsupported && result <= kCaptureLast;
}

// Whether a stream is being captured. Asking about the legacy stream while another stream of the
// context is captured is an error of its own (906), which says the same: do not touch.
CuResult capturing(const Driver& driver, StreamHandle stream, bool* yes) {
  int status = kCaptureNone;
  const CuResult r = driver.stream_is_capturing(stream, &status);
  *yes = is_capture_error(r) || (r == kSuccess && status != kCaptureNone);
  return is_capture_error(r) ? static_cast<CuResult>(kSuccess) : r;
}

}  // namespace

void ContextScope::enter(Context primary, int ordinal, Context current) {
  if (result_ != kSuccess) return;
  Device device = -1;
  if (current != nullptr && driver_.context_device(&device) == kSuccess && device == ordinal)
    return;
  result_ = driver_.context_push(primary);
  pushed_ = result_ == kSuccess;
}

CudaDeviceApi::~CudaDeviceApi() = default;

std::string CudaDeviceApi::read_device(const Driver& driver, int ordinal) {
  Device device = 0;
  if (const CuResult r = driver.device_get(&device, ordinal); r != kSuccess) {
    return fmt::format("device {}: cuDeviceGet says {}", ordinal, error_text(driver, r));
  }
  // An attribute that the driver does not know or give counts as 0.
  const auto get = [&](int attribute) -> std::int64_t {
    int value = 0;
    return driver.device_attribute(&value, attribute, device) == kSuccess && value > 0 ? value : 0;
  };
  const auto or_default = [](std::int64_t value, std::int64_t fallback) {
    return value > 0 ? value : fallback;
  };
  char name[256] = "";
  if (driver.device_name(name, sizeof name, device) != kSuccess) name[0] = '\0';
  std::size_t memory = 0;
  if (driver.device_memory(&memory, device) != kSuccess) memory = 0;
  DeviceInfo info;
  info.device = {DeviceKind::kCuda, ordinal};
  info.model = name;
  info.arch = static_cast<int>(get(kCapabilityMajor) * 10 + get(kCapabilityMinor));
  if (info.arch < 10)
    return fmt::format("device {} ({}): the driver gives no compute capability for it", ordinal,
                       name);
  info.driver_version = driver.version;
  info.sm_count = or_default(get(kMultiprocessorCount), kDefaultSmCount);
  info.shared_bytes = or_default(get(kMaxSharedPerBlockOptin),
                                 or_default(get(kMaxSharedPerBlock), kDefaultSharedBytes));
  info.l2_bytes = or_default(get(kL2CacheSize), kDefaultL2Bytes);
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.warp_size = or_default(get(kWarpSize), kDefaultWarpSize);
  pools_[static_cast<std::size_t>(ordinal)] =
      driver.memory_alloc_async && driver.memory_free_async && get(kMemoryPoolsSupported) != 0;
  devices_.push_back(std::move(info));
  return {};
}

void CudaDeviceApi::start() {
  std::call_once(started_, [this] {
    driver_ = source_();
    if (!driver_) {
      refusal_ = driver_.error().message;
      return;
    }
    const Driver& driver = **driver_;
    int count = 0;
    if (const CuResult r = driver.device_count(&count); r != kSuccess) {
      refusal_ = fmt::format("cuDeviceGetCount says {}", error_text(driver, r));
      return;
    }
    std::string reasons;
    for (int ordinal = 0; ordinal < std::min(count, kMaxDevices); ++ordinal) {
      if (const std::string why = read_device(driver, ordinal); !why.empty()) reasons += "; " + why;
    }
    if (!devices_.empty()) {
      timer_ = make_timer(*this);
      return;
    }
    refusal_ = fmt::format("the CUDA driver {} ({}) offers no device that can be used ({} seen){}",
                           driver.path, version_text(driver.version), count, reasons);
  });
}

Timer* CudaDeviceApi::timer() {
  start();
  return timer_.get();
}

Result<const Driver*> CudaDeviceApi::driver() {
  start();
  return driver_;
}

Support CudaDeviceApi::available() {
  start();
  return refusal_.empty() ? Support::yes() : Support::no(refusal_);
}

std::vector<DeviceInfo> CudaDeviceApi::devices() {
  start();
  return devices_;
}

Result<const DeviceInfo*> CudaDeviceApi::info(int ordinal) {
  start();
  if (!refusal_.empty()) return fail(Code::kUnavailable, refusal_, kWhere);
  std::string known;
  for (const DeviceInfo& device : devices_) {
    if (device.device.ordinal == ordinal) return &device;
    known += (known.empty() ? "" : ", ") + device_name(device.device);
  }
  return fail(Code::kNotFound,
              fmt::format("there is no device cuda:{}; this machine has {}", ordinal, known),
              kWhere);
}

Result<Context> CudaDeviceApi::primary(int ordinal) {
  OPFORGE_ASSIGN(const DeviceInfo* device, info(ordinal));
  std::atomic<Context>& slot = contexts_[static_cast<std::size_t>(device->device.ordinal)];
  if (Context ready = slot.load(std::memory_order_acquire)) return ready;
  const std::lock_guard lock(mutex_);
  if (Context ready = slot.load(std::memory_order_acquire)) return ready;
  const Driver& driver = **driver_;
  Context context = nullptr;
  OPFORGE_TRY(check(driver, driver.context_retain(&context, ordinal), "cuDevicePrimaryCtxRetain",
                    fmt::format("starting cuda:{}", ordinal)));
  slot.store(context, std::memory_order_release);
  return context;
}

Result<void*> CudaDeviceApi::allocate(int ordinal, std::size_t bytes, StreamHandle stream) {
  OPFORGE_ASSIGN(const Context context, primary(ordinal));
  if (bytes == 0) return nullptr;
  const Driver& driver = **driver_;
  const ContextScope scope(driver, context, ordinal);
  const std::string what = fmt::format("allocating {} bytes on cuda:{}", bytes, ordinal);
  OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", what));
  bool captured = false;
  OPFORGE_TRY(check(driver, capturing(driver, stream, &captured), "cuStreamIsCapturing", what));
  if (captured) {
    return fail(
        Code::kUnavailable,
        what + ": the stream is being captured into a graph; allocate before the capture begins",
        kWhere);
  }
  free_pending();
  DevicePtr memory = 0;
  if (pools_[static_cast<std::size_t>(ordinal)]) {
    OPFORGE_TRY(
        check(driver, driver.memory_alloc_async(&memory, bytes, stream), "cuMemAllocAsync", what));
  } else {
    OPFORGE_TRY(check(driver, driver.memory_alloc(&memory, bytes), "cuMemAlloc", what));
  }
  return reinterpret_cast<void*>(memory);
}

Status CudaDeviceApi::free_now(int ordinal, void* memory, StreamHandle stream) {
  const Driver& driver = **driver_;
  const ContextScope scope(driver, primary_if_ready(ordinal), ordinal);
  OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", "releasing memory"));
  bool captured = false;
  if (capturing(driver, stream, &captured) == kSuccess && captured) {
    return fail(Code::kUnavailable, "the stream is being captured", kWhere);
  }
  if (pools_[static_cast<std::size_t>(ordinal)]) {
    return check(driver, driver.memory_free_async(address(memory), stream), "cuMemFreeAsync",
                 "releasing memory");
  }
  // cuMemFree waits for the device by itself.
  return check(driver, driver.memory_free(address(memory)), "cuMemFree", "releasing memory");
}

void CudaDeviceApi::release(int ordinal, void* memory, StreamHandle stream) {
  if (memory == nullptr || ordinal < 0 || ordinal >= kMaxDevices ||
      primary_if_ready(ordinal) == nullptr)
    return;
  const Status freed = free_now(ordinal, memory, stream);
  if (freed || freed.error().code != Code::kUnavailable) return;
  const std::lock_guard lock(mutex_);
  pending_.push_back({ordinal, memory});
  has_pending_.store(true, std::memory_order_relaxed);
}

void CudaDeviceApi::free_pending() {
  if (!has_pending_.load(std::memory_order_relaxed)) return;
  std::vector<Pending> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(pending_);
    has_pending_.store(false, std::memory_order_relaxed);
  }
  // The legacy stream: ordered after the work of all blocking streams. Still under capture
  // elsewhere: back to the list.
  for (const Pending& item : work) release(item.ordinal, item.memory, nullptr);
}

Status CudaDeviceApi::copy(int ordinal, void* to, const void* from, std::size_t bytes) {
  OPFORGE_ASSIGN(const Context context, primary(ordinal));
  if (bytes == 0) return {};
  const Driver& driver = **driver_;
  const ContextScope scope(driver, context, ordinal);
  const std::string what = fmt::format("copying {} bytes on cuda:{}", bytes, ordinal);
  OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", what));
  OPFORGE_TRY(
      check(driver, driver.memory_copy(address(to), address(from), bytes), "cuMemcpy", what));
  // A copy inside the device returns before it is done.
  return check(driver, driver.stream_synchronize(nullptr), "cuStreamSynchronize", what);
}

Status CudaDeviceApi::synchronize(int ordinal, StreamHandle stream) {
  OPFORGE_ASSIGN(const Context context, primary(ordinal));
  const Driver& driver = **driver_;
  const ContextScope scope(driver, context, ordinal);
  const std::string what = fmt::format("waiting for a stream of cuda:{}", ordinal);
  OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", what));
  return check(driver, driver.stream_synchronize(stream), "cuStreamSynchronize", what);
}

Result<DeviceApi::StreamState> CudaDeviceApi::stream_state(int ordinal, StreamHandle stream) {
  OPFORGE_ASSIGN(const Context context, primary(ordinal));
  const Driver& driver = **driver_;
  const ContextScope scope(driver, context, ordinal);
  if (scope.result() != kSuccess) {
    return fail(check(driver, scope.result(), "cuCtxPushCurrent", "looking at a stream").error());
  }
  StreamState state;
  if (const CuResult r = capturing(driver, stream, &state.capturing); r != kSuccess) {
    return fail(check(driver, r, "cuStreamIsCapturing", "looking at a stream").error());
  }
  // The driver refuses to tell the id of a stream that is being captured, and the question ends the
  // capture. No workspace is taken then, so the handle does.
  unsigned long long id = 0;
  const bool has_id =
      !state.capturing && driver.stream_id != nullptr && driver.stream_id(stream, &id) == kSuccess;
  // Drivers before CUDA 12 have no ids: there the handle stands for its stream.
  state.id = has_id ? id : reinterpret_cast<std::uintptr_t>(stream);
  return state;
}

CudaDeviceApi& process_devices() {
  static auto* devices = new CudaDeviceApi;
  return *devices;
}

}  // namespace opforge::cu
