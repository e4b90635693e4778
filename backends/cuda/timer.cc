// The timer role: events for time, graphs for replay, streams.
#include <fmt/format.h>

#include "backends/cuda/device.hpp"

namespace opforge::cu {
namespace {

constexpr const char* kWhere = "backends/cuda/timer";
constexpr unsigned kNonBlockingStream = 1;

// What the objects below share: a driver, a device, its context.
struct Place {
  const Driver* driver = nullptr;
  Context context = nullptr;
  int ordinal = 0;

  static Result<Place> of(CudaDeviceApi& devices, int ordinal) {
    OPFORGE_ASSIGN(const Context context, devices.primary(ordinal));
    OPFORGE_ASSIGN(const Driver* driver, devices.driver());
    return Place{driver, context, ordinal};
  }
  // Run `call` with the device's context current.
  template <class Call>
  Status with_context(Call call) const {
    const ContextScope scope(*driver, context, ordinal);
    OPFORGE_TRY(check(*driver, scope.result(), "cuCtxPushCurrent", "timing"));
    return call();
  }
};

class EventStopwatch : public Stopwatch {
 public:
  EventStopwatch(Place place, Stream stream) : place_(place), stream_(stream) {}
  ~EventStopwatch() override {
    const ContextScope scope(*place_.driver, place_.context, place_.ordinal);
    if (scope.result() != kSuccess) return;
    for (Event event : events_) place_.driver->event_destroy(event);
  }
  Status open(std::size_t marks) {
    return place_.with_context([&]() -> Status {
      for (std::size_t i = 0; i < marks; ++i) {
        Event event = nullptr;
        OPFORGE_TRY(check(*place_.driver, place_.driver->event_create(&event, 0), "cuEventCreate",
                          "opening a stopwatch"));
        events_.push_back(event);
      }
      return {};
    });
  }
  Status mark() override {
    if (used_ == events_.size()) {
      return fail(Code::kInvalidArgument,
                  fmt::format("the stopwatch was opened for {} marks", events_.size()), kWhere);
    }
    const ContextScope scope(*place_.driver, place_.context, place_.ordinal);
    OPFORGE_TRY(check(*place_.driver, scope.result(), "cuCtxPushCurrent", "timing"));
    OPFORGE_TRY(check(*place_.driver, place_.driver->event_record(events_[used_], stream_),
                      "cuEventRecord", "marking a stream"));
    ++used_;
    return {};
  }
  Result<std::vector<double>> read_us() override {
    std::vector<double> times;
    const std::size_t count = std::exchange(used_, 0);
    if (count == 0) return times;
    OPFORGE_TRY(place_.with_context([&]() -> Status {
      const Driver& driver = *place_.driver;
      OPFORGE_TRY(check(driver, driver.event_synchronize(events_[count - 1]), "cuEventSynchronize",
                        "waiting for timed work"));
      // Neighbour to neighbour: a float of milliseconds since the first mark would lose nanoseconds
      // in long runs.
      double since_first = 0;
      times.push_back(0);
      for (std::size_t i = 1; i < count; ++i) {
        float milliseconds = 0;
        OPFORGE_TRY(check(driver, driver.event_elapsed(&milliseconds, events_[i - 1], events_[i]),
                          "cuEventElapsedTime", "reading a stopwatch"));
        since_first += 1000.0 * static_cast<double>(milliseconds);
        times.push_back(since_first);
      }
      return {};
    }));
    return times;
  }

 private:
  Place place_;
  Stream stream_;
  std::vector<Event> events_;
  std::size_t used_ = 0;
};

class GraphRecording : public Recording {
 public:
  GraphRecording(Place place, GraphExec exec) : place_(place), exec_(exec) {}
  ~GraphRecording() override {
    const ContextScope scope(*place_.driver, place_.context, place_.ordinal);
    if (scope.result() == kSuccess) place_.driver->graph_exec_destroy(exec_);
  }
  Status queue(StreamHandle stream) override {
    return place_.with_context([&] {
      return check(*place_.driver, place_.driver->graph_launch(exec_, stream), "cuGraphLaunch",
                   "replaying a graph");
    });
  }

 private:
  Place place_;
  GraphExec exec_;
};

class CudaTimer : public Timer {
 public:
  explicit CudaTimer(CudaDeviceApi& devices) : devices_(devices) {}

  Result<std::unique_ptr<Stopwatch>> open(int ordinal, StreamHandle stream,
                                          std::size_t marks) override {
    OPFORGE_ASSIGN(const Place place, Place::of(devices_, ordinal));
    auto stopwatch = std::make_unique<EventStopwatch>(place, stream);
    OPFORGE_TRY(stopwatch->open(marks));
    return stopwatch;
  }

  std::vector<std::string> copy_methods() const override { return {"cuMemcpyDtoDAsync"}; }

  Status queue_copy(std::size_t method, int ordinal, StreamHandle stream, void* to,
                    const void* from, std::size_t bytes) override {
    if (method != 0)
      return fail(Code::kInvalidArgument, fmt::format("no copy method {}", method), kWhere);
    OPFORGE_ASSIGN(const Place place, Place::of(devices_, ordinal));
    return place.with_context([&] {
      return check(
          *place.driver,
          place.driver->memory_copy_async(reinterpret_cast<DevicePtr>(to),
                                          reinterpret_cast<DevicePtr>(from), bytes, stream),
          "cuMemcpyDtoDAsync", fmt::format("copying {} bytes on cuda:{}", bytes, ordinal));
    });
  }

  Result<std::unique_ptr<Recording>> record(
      int ordinal, const std::function<Status(StreamHandle)>& queue) override {
    OPFORGE_ASSIGN(const Place place, Place::of(devices_, ordinal));
    if (place.driver->graph_instantiate == nullptr) {
      return fail(Code::kUnavailable, "this CUDA driver cannot instantiate graphs", kWhere);
    }
    OPFORGE_ASSIGN(const StreamHandle stream, make_stream(ordinal));
    auto recording = capture(place, stream, queue);
    release_stream(ordinal, stream);
    return recording;
  }

  Result<StreamHandle> make_stream(int ordinal) override {
    OPFORGE_ASSIGN(const Place place, Place::of(devices_, ordinal));
    Stream stream = nullptr;
    OPFORGE_TRY(place.with_context([&] {
      return check(*place.driver, place.driver->stream_create(&stream, kNonBlockingStream),
                   "cuStreamCreate", fmt::format("making a stream on cuda:{}", ordinal));
    }));
    return stream;
  }
  void release_stream(int ordinal, StreamHandle stream) override {
    const auto place = Place::of(devices_, ordinal);
    if (!place || stream == nullptr) return;
    const ContextScope scope(*place->driver, place->context, ordinal);
    if (scope.result() == kSuccess) place->driver->stream_destroy(stream);
  }

 private:
  static Result<std::unique_ptr<Recording>> capture(
      const Place& place, StreamHandle stream, const std::function<Status(StreamHandle)>& queue) {
    const Driver& driver = *place.driver;
    const ContextScope scope(driver, place.context, place.ordinal);
    OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", "recording"));
    // Thread-local: what other threads do with the driver meanwhile does not matter.
    OPFORGE_TRY(check(driver, driver.stream_begin_capture(stream, kCaptureThreadLocal),
                      "cuStreamBeginCapture", "recording a graph"));
    const Status queued = queue(stream);
    Graph graph = nullptr;
    const CuResult ended = driver.stream_end_capture(stream, &graph);
    if (!queued) {
      if (graph != nullptr) driver.graph_destroy(graph);
      return fail(queued.error());
    }
    OPFORGE_TRY(check(driver, ended, "cuStreamEndCapture", "recording a graph"));
    GraphExec exec = nullptr;
    const CuResult made = driver.graph_instantiate(&exec, graph, 0);
    driver.graph_destroy(graph);
    OPFORGE_TRY(check(driver, made, "cuGraphInstantiate", "recording a graph"));
    return std::make_unique<GraphRecording>(place, exec);
  }

  CudaDeviceApi& devices_;
};

}  // namespace

std::unique_ptr<Timer> make_timer(CudaDeviceApi& devices) {
  return std::make_unique<CudaTimer>(devices);
}

}  // namespace opforge::cu
