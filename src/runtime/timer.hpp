// The timer role of a backend: what measuring and trials need of a device beyond what production
// does. Reached through DeviceApi::timer(). Seven functions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace opforge {

using StreamHandle = void*;

// Marks in a stream of work and the device time between them (CUDA: events; CPU: a steady clock,
// since runs there are synchronous). One thread at a time.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  // Queue a mark behind the work that was queued so far. At most as many as it was opened for
  // between two reads.
  virtual Status mark() = 0;
  // Wait for all marks. One value for each: microseconds since the first mark was reached (so the
  // first is 0). Forgets the marks. Fewer than two marks give an empty or single-zero list.
  virtual Result<std::vector<double>> read_us() = 0;
};

// Work that was recorded once and is queued again cheaply (CUDA: a graph).
class Recording {
 public:
  virtual ~Recording() = default;
  virtual Status queue(StreamHandle stream) = 0;
};

// Functions may be called from several threads; the caller's current device is unchanged
// afterwards.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual Result<std::unique_ptr<Stopwatch>> open(int ordinal, StreamHandle stream,
                                                  std::size_t marks) = 0;

  // The ways in which plain memory can be copied here, e.g. {"memcpy", "non-temporal"}; the fastest
  // of them is the measured ceiling. Not empty.
  virtual std::vector<std::string> copy_methods() const = 0;
  // Queue a copy of `bytes` within device memory by method `method` with every thread or unit that
  // a kernel may use.
  virtual Status queue_copy(std::size_t method, int ordinal, StreamHandle stream, void* to,
                            const void* from, std::size_t bytes) = 0;

  // Record what `queue` puts into the stream that it is given. kUnavailable where recording does
  // not exist.
  virtual Result<std::unique_ptr<Recording>> record(
      int ordinal, const std::function<Status(StreamHandle)>& queue) {
    (void)ordinal, (void)queue;
    return fail(Code::kUnavailable, "this device cannot record work for replay", "runtime/timer");
  }

  // A stream beside the default one. kUnavailable where there are no streams.
  virtual Result<StreamHandle> make_stream(int ordinal) {
    (void)ordinal;
    return fail(Code::kUnavailable, "this device has no streams", "runtime/timer");
  }
  virtual void release_stream(int ordinal, StreamHandle stream) { (void)ordinal, (void)stream; }

  // Use at most `threads` host threads for the launches of the calling thread from now on; 0 lifts
  // the limit. For trials that show that results do not depend on it. kUnavailable where host
  // threads do not matter.
  virtual Status limit_threads(int threads) {
    (void)threads;
    return fail(Code::kUnavailable, "this device does not run on host threads", "runtime/timer");
  }
};

}  // namespace opforge
