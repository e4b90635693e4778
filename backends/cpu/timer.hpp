// The timer role of the host: runs are synchronous, so a steady clock round them is the device
// time.
#pragma once

#include "runtime/timer.hpp"

namespace opforge {

Timer& host_timer();  // lives until the process ends

}  // namespace opforge
