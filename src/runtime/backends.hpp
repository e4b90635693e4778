// The launchers that were built in: a table generated from backends/*/backend.cmake.
#pragma once

#include <span>
#include <string_view>

#include "runtime/launcher.hpp"

namespace opforge {

// By name; each is made on first use and lives until the process ends. Thread-safe.
std::span<Launcher* const> all_launchers();
Launcher* find_launcher(DeviceKind device, CodeKind kind);
DeviceApi* find_device_api(DeviceKind device);
// Every usable device of every kind; the CPU always.
std::vector<DeviceInfo> all_devices();

}  // namespace opforge
