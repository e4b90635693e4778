// What measuring needs of OpenCL devices: marks with time stamps, copies, queues.
#pragma once

#include "runtime/timer.hpp"

namespace opforge::ocl {

Timer& device_timer();

}  // namespace opforge::ocl
