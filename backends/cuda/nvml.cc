#include "backends/cuda/nvml.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/dynlib.hpp"

namespace opforge::cu {
namespace {

using NvmlDevice = struct NvmlDeviceOpaque*;
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_release)(char*, unsigned) = nullptr;
  int (*by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;

  bool find(const DynamicLibrary& library) {
    const auto get = [&](auto& entry, const char* name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.symbol(name));
      return entry != nullptr;
    };
    return get(init, "nvmlInit_v2") && get(shutdown, "nvmlShutdown") &&
           get(driver_release, "nvmlSystemGetDriverVersion") &&
           get(by_pci, "nvmlDeviceGetHandleByPciBusId_v2") &&
           get(clock, "nvmlDeviceGetClockInfo") && get(max_clock, "nvmlDeviceGetMaxClockInfo") &&
           get(temperature, "nvmlDeviceGetTemperature") && get(power, "nvmlDeviceGetPowerUsage");
  }
};

// "?" for what a device does not say.
template <class Read>
std::string number(Read read) {
  unsigned value = 0;
  return read(&value) == 0 ? std::to_string(value) : "?";
}

std::string device_line(const Nvml& nvml, const Driver& driver, const DeviceInfo& device) {
  // NVML counts all devices, CUDA only the visible ones: the bus address is what both know.
  char bus[32] = "";
  NvmlDevice handle = nullptr;
  if (driver.device_pci_id == nullptr ||
      driver.device_pci_id(bus, sizeof bus, device.device.ordinal) != kSuccess ||
      nvml.by_pci(bus, &handle) != 0) {
    return fmt::format("{}: not known to NVML", device_name(device.device));
  }
  unsigned milliwatts = 0;
  const std::string watts =
      nvml.power(handle, &milliwatts) == 0 ? std::to_string(milliwatts / 1000) : "?";
  return fmt::format(
      "{} at {}: SM clock {} of {} MHz, memory clock {} of {} MHz, {} W, {} C",
      device_name(device.device), bus,
      number([&](unsigned* v) { return nvml.clock(handle, kClockSm, v); }),
      number([&](unsigned* v) { return nvml.max_clock(handle, kClockSm, v); }),
      number([&](unsigned* v) { return nvml.clock(handle, kClockMemory, v); }),
      number([&](unsigned* v) { return nvml.max_clock(handle, kClockMemory, v); }), watts,
      number([&](unsigned* v) { return nvml.temperature(handle, kTemperatureGpu, v); }));
}

}  // namespace

std::vector<std::string> management_details(const Driver& driver,
                                            const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> candidates{
      "libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
      "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1"};
  if (const char* named = std::getenv("OPFORGE_LIBNVML"); named != nullptr && *named != '\0')
    candidates = {named};
  const auto library = DynamicLibrary::open_first(candidates);
  if (!library) return {"clocks are not shown: " + library.error().message};
  Nvml nvml;
  if (!nvml.find(*library))
    return {fmt::format("clocks are not shown: {} is too old", library->path())};
  if (const int r = nvml.init(); r != 0)
    return {fmt::format("clocks are not shown: nvmlInit says {}", r)};
  std::vector<std::string> lines;
  char release[96] = "";
  if (nvml.driver_release(release, sizeof release) == 0)
    lines.push_back(fmt::format("driver release {}", release));
  for (const DeviceInfo& device : devices) lines.push_back(device_line(nvml, driver, device));
  nvml.shutdown();
  return lines;
}

}  // namespace opforge::cu
