#include "backends/opencl/timer.hpp"

#include <fmt/format.h>

#include "backends/opencl/device.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/timer";

// Marks are marker commands; their time stamps are the device's own clock.
class EventStopwatch final : public Stopwatch {
 public:
  EventStopwatch(const Icd& icd, cl_command_queue queue) : icd_(icd), queue_(queue) {}
  ~EventStopwatch() override { forget(); }

  Status mark() override {
    cl_event event = nullptr;
    OPFORGE_TRY(check(icd_.marker(queue_, 0, nullptr, &event), "clEnqueueMarkerWithWaitList",
                      "marking a stream"));
    events_.push_back(event);
    return {};
  }

  Result<std::vector<double>> read_us() override {
    std::vector<double> out;
    if (events_.empty()) return out;
    OPFORGE_TRY(check(icd_.wait(static_cast<cl_uint>(events_.size()), events_.data()),
                      "clWaitForEvents", "waiting for marks"));
    cl_ulong first = 0;
    for (cl_event event : events_) {
      cl_ulong at = 0;
      OPFORGE_TRY(check(icd_.event_times(event, CL_PROFILING_COMMAND_END, sizeof at, &at, nullptr),
                        "clGetEventProfilingInfo", "reading a mark"));
      if (out.empty()) first = at;
      out.push_back(static_cast<double>(static_cast<std::int64_t>(at - first)) / 1000.0);
    }
    forget();
    return out;
  }

 private:
  void forget() {
    for (cl_event event : events_) icd_.release_event(event);
    events_.clear();
  }
  const Icd& icd_;
  cl_command_queue queue_;
  std::vector<cl_event> events_;
};

// Pieces of one copy that the device may run at once: on a CPU device, one command is one thread.
constexpr std::size_t kPieces = 16;

class DeviceTimer final : public Timer {
 public:
  Result<std::unique_ptr<Stopwatch>> open(int ordinal, StreamHandle stream, std::size_t) override {
    OPFORGE_ASSIGN(const OpenClDevice* device, process_devices().open(ordinal));
    OPFORGE_ASSIGN(const Icd* icd, process_icd());
    return std::make_unique<EventStopwatch>(*icd, queue_of(*device, stream));
  }

  std::vector<std::string> copy_methods() const override {
    return {"one copy command", "copy commands in parallel"};
  }

  Status queue_copy(std::size_t method, int ordinal, StreamHandle stream, void* to,
                    const void* from, std::size_t bytes) override {
    OPFORGE_ASSIGN(const OpenClDevice* device, process_devices().open(ordinal));
    OPFORGE_ASSIGN(const Icd* icd, process_icd());
    cl_command_queue queue = queue_of(*device, stream);
    if (method == 0 || bytes < kPieces * 4096) {
      return check(icd->svm_copy(queue, CL_FALSE, to, from, bytes, 0, nullptr, nullptr),
                   "clEnqueueSVMMemcpy", "copying memory");
    }
    if (method != 1)
      return fail(Code::kInvalidArgument, fmt::format("there is no copy method {}", method),
                  kWhere);
    OPFORGE_ASSIGN(cl_command_queue side, make_queue(*icd, *device, true));
    const Status done = copy_in_pieces(*icd, queue, side, static_cast<std::byte*>(to),
                                       static_cast<const std::byte*>(from), bytes);
    icd->release_queue(side);  // once its commands are done
    return done;
  }

  Result<StreamHandle> make_stream(int ordinal) override {
    OPFORGE_ASSIGN(const OpenClDevice* device, process_devices().open(ordinal));
    OPFORGE_ASSIGN(const Icd* icd, process_icd());
    OPFORGE_ASSIGN(cl_command_queue queue, make_queue(*icd, *device));
    return static_cast<StreamHandle>(queue);
  }

  void release_stream(int, StreamHandle stream) override {
    const auto icd = process_icd();
    if (!icd || stream == nullptr) return;
    (*icd)->finish(static_cast<cl_command_queue>(stream));
    (*icd)->release_queue(static_cast<cl_command_queue>(stream));
  }

 private:
  // After what `queue` holds, and before what is queued there later.
  static Status copy_in_pieces(const Icd& icd, cl_command_queue queue, cl_command_queue side,
                               std::byte* to, const std::byte* from, std::size_t bytes) {
    cl_event before = nullptr;
    OPFORGE_TRY(check(icd.marker(queue, 0, nullptr, &before), "clEnqueueMarkerWithWaitList",
                      "copying memory"));
    std::vector<cl_event> events{before};
    Status done = check(icd.flush(queue), "clFlush", "copying memory");
    const std::size_t each = (bytes / kPieces + 4095) / 4096 * 4096;
    for (std::size_t begin = 0; done && begin < bytes; begin += each) {
      cl_event event = nullptr;
      done = check(icd.svm_copy(side, CL_FALSE, to + begin, from + begin,
                                std::min(each, bytes - begin), 1, &before, &event),
                   "clEnqueueSVMMemcpy", "copying memory");
      if (done) events.push_back(event);
    }
    if (done) done = check(icd.flush(side), "clFlush", "copying memory");
    if (done) {
      done = check(icd.barrier(queue, static_cast<cl_uint>(events.size()), events.data(), nullptr),
                   "clEnqueueBarrierWithWaitList", "copying memory");
    }
    for (cl_event event : events) icd.release_event(event);
    return done;
  }
};

}  // namespace

Timer& device_timer() {
  static DeviceTimer& timer = *new DeviceTimer;
  return timer;
}

}  // namespace opforge::ocl
