// The generated table of launchers (backends/*/backend.cmake).
#include "runtime/backends.hpp"

#include <vector>

namespace opforge {
#include "launchers.inc"  // declares the functions and kRows

std::span<Launcher* const> all_launchers() {
  static const std::vector<Launcher*>& launchers = *new std::vector<Launcher*>([] {
    std::vector<Launcher*> made;
    for (const auto& row : kRows) {
      if (row.make != nullptr) made.push_back(row.make());
    }
    return made;
  }());
  return launchers;
}

Launcher* find_launcher(DeviceKind device, CodeKind kind) {
  for (Launcher* launcher : all_launchers()) {
    if (launcher->device_kind() == device && launcher->accepts(kind)) return launcher;
  }
  return nullptr;
}

DeviceApi* find_device_api(DeviceKind device) {
  for (Launcher* launcher : all_launchers()) {
    if (launcher->device_kind() == device) return &launcher->device_api();
  }
  return nullptr;
}

std::vector<DeviceInfo> all_devices() {
  std::vector<DeviceInfo> devices;
  std::vector<const DeviceApi*> seen;
  for (Launcher* launcher : all_launchers()) {
    DeviceApi& api = launcher->device_api();
    bool again = false;
    for (const DeviceApi* other : seen) again = again || other == &api;
    if (again) continue;
    seen.push_back(&api);
    for (DeviceInfo& device : api.devices()) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace opforge
