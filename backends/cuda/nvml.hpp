// NVML, opened at run time where it is there: what only it knows of a GPU. For people; nothing
// depends on it.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "target/target.hpp"

namespace opforge::cu {

// A line for each device: driver release, clocks now and at most, power, temperature; one line with
// the reason where NVML (OPFORGE_LIBNVML, else libnvidia-ml.so.1) cannot be used.
std::vector<std::string> management_details(const Driver& driver,
                                            const std::vector<DeviceInfo>& devices);

}  // namespace opforge::cu
