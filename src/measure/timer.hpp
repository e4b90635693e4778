// The timer of a device: the backend's own (runtime/timer.hpp), else the host's clock round
// synchronize().
#pragma once

#include <memory>

#include "runtime/launcher.hpp"

namespace opforge {

// Never fails: where `api` has no timer, a host-clock one is made. `api` must outlive the result.
std::shared_ptr<Timer> timer_of(DeviceApi& api);

// The fastest plain copy of this device, measured now: bytes read plus bytes written, per second.
struct CopyCeiling {
  double bytes_per_second = 0;
  std::string method;            // which way of copying was the fastest
  std::size_t buffer_bytes = 0;  // of one buffer; beyond the last-level cache where memory allows
  double noise = 0;              // relative, between repeats
};
// `buffer_bytes` 0 picks 8 x the cache of the device, at least 256 MB (64 MB on a CPU), at most an
// eighth of its memory.
Result<CopyCeiling> measure_copy_ceiling(DeviceApi& api, const DeviceInfo& device,
                                         std::size_t buffer_bytes = 0);

}  // namespace opforge
