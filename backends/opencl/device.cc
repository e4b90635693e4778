#include "backends/opencl/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "backends/opencl/timer.hpp"
#include "base/text.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/device";

std::string text_of(const Icd& icd, cl_platform_id platform, cl_platform_info what) {
  std::size_t size = 0;
  if (icd.platform_info(platform, what, 0, nullptr, &size) != CL_SUCCESS || size < 2) return {};
  std::string text(size, '\0');
  if (icd.platform_info(platform, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  return std::string(trim(text.c_str()));
}

std::string text_of(const Icd& icd, cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (icd.device_info(device, what, 0, nullptr, &size) != CL_SUCCESS || size < 2) return {};
  std::string text(size, '\0');
  if (icd.device_info(device, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  return std::string(trim(text.c_str()));
}

// 0 when the device does not say.
template <class T>
T number_of(const Icd& icd, cl_device_id device, cl_device_info what) {
  T value{};
  return icd.device_info(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

// "pocl" of "POCL": as targets are spelt. Without a suffix, the platform's name.
std::string platform_word(const Icd& icd, cl_platform_id platform) {
  std::string word = text_of(icd, platform, CL_PLATFORM_ICD_SUFFIX_KHR);
  if (word.empty()) word = text_of(icd, platform, CL_PLATFORM_NAME);
  for (char& c : word) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '-';
  }
  return word.empty() ? "unnamed" : word;
}

// 3010 of "3.1+debian", as driver versions of other devices; 0 when there is no such number.
int version_number(std::string_view text) {
  int major = 0, minor = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc{} || major < 0 || major > 1000000) return 0;
  if (at != end && *at == '.') std::from_chars(at + 1, end, minor);
  return major * 1000 + std::clamp(minor, 0, 99) * 10;
}

}  // namespace

std::string to_string(const Identity& identity) {
  return fmt::format("{}: {} (driver {}; {})", identity.platform, identity.device, identity.driver,
                     identity.platform_version);
}

void OpenClDevices::read_platform(const Icd& icd, cl_platform_id platform) {
  cl_uint count = 0;
  if (icd.devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) {
    refused_.push_back(platform_word(icd, platform) + ": no devices");
    return;
  }
  std::vector<cl_device_id> ids(count);
  if (icd.devices(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) return;
  for (cl_device_id id : ids) {
    if (devices_.size() == kMostDevices) return;
    auto device = std::make_unique<OpenClDevice>();
    device->platform = platform;
    device->id = id;
    Identity& identity = device->identity;
    identity.platform = platform_word(icd, platform);
    identity.device = text_of(icd, id, CL_DEVICE_NAME);
    identity.driver = text_of(icd, id, CL_DRIVER_VERSION);
    identity.platform_version = text_of(icd, platform, CL_PLATFORM_VERSION);
    const std::string name = fmt::format("{}: {}", identity.platform, identity.device);
    const auto svm = number_of<cl_device_svm_capabilities>(icd, id, CL_DEVICE_SVM_CAPABILITIES);
    if ((svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0) {
      refused_.push_back(name + ": no shared virtual memory, which tensors are held in");
      continue;
    }
    if (number_of<cl_bool>(icd, id, CL_DEVICE_AVAILABLE) == CL_FALSE) {
      refused_.push_back(name + ": its driver says that it is not available");
      continue;
    }
    if (number_of<cl_bool>(icd, id, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) {
      refused_.push_back(name + ": not little-endian");
      continue;
    }
    device->host_memory = (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0;
    device->exact_division = (number_of<cl_device_fp_config>(icd, id, CL_DEVICE_SINGLE_FP_CONFIG) &
                              CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    device->group_limit = number_of<std::size_t>(icd, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    const bool is_cpu =
        (number_of<cl_device_type>(icd, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
    DeviceInfo& info = device->info;
    info.device = {DeviceKind::kOpenCl, static_cast<int>(devices_.size())};
    info.model = name;
    info.driver_version = version_number(identity.driver);
    info.sm_count = std::max<cl_uint>(1, number_of<cl_uint>(icd, id, CL_DEVICE_MAX_COMPUTE_UNITS));
    const auto as_i64 = [](cl_ulong value) { return static_cast<std::int64_t>(value); };
    info.shared_bytes = as_i64(number_of<cl_ulong>(icd, id, CL_DEVICE_LOCAL_MEM_SIZE));
    info.l2_bytes = as_i64(number_of<cl_ulong>(icd, id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE));
    info.memory_bytes = as_i64(number_of<cl_ulong>(icd, id, CL_DEVICE_GLOBAL_MEM_SIZE));
    info.warp_size = is_cpu ? 1 : 32;
    devices_.push_back(std::move(device));
  }
}

void OpenClDevices::start() {
  std::call_once(started_, [this] {
    const auto icd = process_icd();
    if (!icd) {
      why_none_ = icd.error().message +
                  "; OpenCL needs the ICD loader (Debian: ocl-icd-libopencl1) and a driver (on the "
                  "CPU: pocl-opencl-icd)";
      return;
    }
    cl_uint count = 0;
    const cl_int error = (*icd)->platforms(0, nullptr, &count);
    if (error != CL_SUCCESS || count == 0) {
      why_none_ = fmt::format(
          "{} finds no OpenCL driver{}; install one (on the CPU: Debian's pocl-opencl-icd)",
          (*icd)->path, error == CL_SUCCESS ? "" : " (" + error_name(error) + ")");
      return;
    }
    std::vector<cl_platform_id> platforms(count);
    if ((*icd)->platforms(count, platforms.data(), nullptr) != CL_SUCCESS) return;
    for (cl_platform_id platform : platforms) read_platform(**icd, platform);
    if (devices_.empty()) why_none_ = "no OpenCL device can be used: " + join(refused_, "; ");
  });
}

Support OpenClDevices::available() {
  start();
  return devices_.empty() ? Support::no(why_none_.empty() ? "no OpenCL device" : why_none_)
                          : Support::yes();
}

std::vector<DeviceInfo> OpenClDevices::devices() {
  start();
  std::vector<DeviceInfo> all;
  for (const auto& device : devices_) all.push_back(device->info);
  return all;
}

std::vector<std::string> OpenClDevices::details() {
  start();
  std::vector<std::string> lines;
  if (const auto icd = process_icd()) {
    lines.push_back("loader " + (*icd)->path);
    for (const std::string& attempt : (*icd)->attempts) lines.push_back("tried " + attempt);
  }
  for (const auto& device : devices_) {
    lines.push_back(fmt::format(
        "{}, {}", to_string(device->identity),
        device->host_memory ? "reads any host memory" : "reads memory that was allocated for it"));
  }
  for (const std::string& refused : refused_) lines.push_back("not used: " + refused);
  return lines;
}

Result<cl_command_queue> make_queue(const Icd& icd, const OpenClDevice& device, bool out_of_order) {
  const cl_queue_properties order = out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
  const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE | order,
                                            0};
  cl_int error = CL_SUCCESS;
  cl_command_queue queue = icd.create_queue(device.context, device.id, properties, &error);
  OPFORGE_TRY(check(error, "clCreateCommandQueueWithProperties", device.info.model));
  return queue;
}

Result<const OpenClDevice*> OpenClDevices::open(int ordinal) {
  start();
  if (const Support here = available(); !here)
    return fail(Code::kUnavailable, here.reason(), kWhere);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices_.size()) {
    return fail(Code::kNotFound,
                fmt::format("there is no opencl:{}; this machine has opencl:0 to opencl:{}",
                            ordinal, devices_.size() - 1),
                kWhere);
  }
  OpenClDevice& device = *devices_[static_cast<std::size_t>(ordinal)];
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  const std::lock_guard lock(opening_);
  if (device.queue != nullptr) return &device;
  if (device.context == nullptr) {
    cl_int error = CL_SUCCESS;
    device.context = icd->create_context(nullptr, 1, &device.id, nullptr, nullptr, &error);
    OPFORGE_TRY(check(error, "clCreateContext", device.info.model));
  }
  OPFORGE_ASSIGN(device.queue, make_queue(*icd, device));
  ready_[static_cast<std::size_t>(ordinal)].store(&device, std::memory_order_release);
  return &device;
}

Result<const OpenClDevice*> OpenClDevices::of_platform(std::string_view platform) {
  start();
  std::vector<std::string> here;
  for (const auto& device : devices_) {
    if (device->identity.platform == platform) return device.get();
    here.push_back("opencl:" + device->identity.platform);
  }
  return fail(Code::kUnavailable,
              fmt::format("no device of OpenCL platform '{}' is here, and OpenCL code is compiled "
                          "by the driver of its device: {}",
                          platform, here.empty() ? why_none_ : "here are " + join(here, ", ")),
              kWhere);
}

Result<void*> OpenClDevices::allocate(int ordinal, std::size_t bytes, StreamHandle) {
  OPFORGE_ASSIGN(const OpenClDevice* device, open(ordinal));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  // Alignment 0: that of the widest type, 128 bytes. Drivers refuse more.
  void* memory =
      icd->svm_alloc(device->context, CL_MEM_READ_WRITE, std::max<std::size_t>(bytes, 1), 0);
  if (memory != nullptr) return memory;
  return fail(Code::kOutOfMemory,
              fmt::format("{}: no {} bytes of shared virtual memory", device->info.model, bytes),
              kWhere);
}

void OpenClDevices::release(int ordinal, void* memory, StreamHandle stream) {
  const auto device = open(ordinal);
  const auto icd = process_icd();
  if (memory == nullptr || !device || !icd) return;
  (*icd)->finish(queue_of(**device, stream));
  (*icd)->svm_free((*device)->context, memory);
}

Status OpenClDevices::copy(int ordinal, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return {};
  OPFORGE_ASSIGN(const OpenClDevice* device, open(ordinal));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  return check(icd->svm_copy(device->queue, CL_TRUE, to, from, bytes, 0, nullptr, nullptr),
               "clEnqueueSVMMemcpy", fmt::format("copying {} bytes", bytes));
}

Status OpenClDevices::synchronize(int ordinal, StreamHandle stream) {
  OPFORGE_ASSIGN(const OpenClDevice* device, open(ordinal));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  return check(icd->finish(queue_of(*device, stream)), "clFinish", device->info.model);
}

Result<DeviceApi::StreamState> OpenClDevices::stream_state(int, StreamHandle stream) {
  return StreamState{false, reinterpret_cast<std::uintptr_t>(stream)};
}

Timer* OpenClDevices::timer() { return &device_timer(); }

OpenClDevices& process_devices() {
  // Never destroyed: plans may outlive static destructors.
  static OpenClDevices& devices = *new OpenClDevices;
  return devices;
}

}  // namespace opforge::ocl
