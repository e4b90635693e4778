#include "measure/timer.hpp"

#include <chrono>

namespace opforge {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  HostStopwatch(DeviceApi& api, int ordinal, StreamHandle stream)
      : api_(api), ordinal_(ordinal), stream_(stream) {}

  Status mark() override {
    OPFORGE_TRY(api_.synchronize(ordinal_, stream_));
    marks_.push_back(std::chrono::steady_clock::now());
    return {};
  }

  Result<std::vector<double>> read_us() override {
    std::vector<double> out;
    for (const auto& mark : marks_) {
      out.push_back(std::chrono::duration<double, std::micro>(mark - marks_.front()).count());
    }
    marks_.clear();
    return out;
  }

 private:
  DeviceApi& api_;
  int ordinal_;
  StreamHandle stream_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

// For devices whose backend brings no timer.
class HostTimer final : public Timer {
 public:
  explicit HostTimer(DeviceApi& api) : api_(api) {}

  Result<std::unique_ptr<Stopwatch>> open(int ordinal, StreamHandle stream, std::size_t) override {
    return std::make_unique<HostStopwatch>(api_, ordinal, stream);
  }
  std::vector<std::string> copy_methods() const override { return {"device copy"}; }
  Status queue_copy(std::size_t, int ordinal, StreamHandle, void* to, const void* from,
                    std::size_t bytes) override {
    return api_.copy(ordinal, to, from, bytes);
  }

 private:
  DeviceApi& api_;
};

}  // namespace

std::shared_ptr<Timer> timer_of(DeviceApi& api) {
  if (Timer* timer = api.timer(); timer != nullptr) return {std::shared_ptr<void>(), timer};
  return std::make_shared<HostTimer>(api);
}

}  // namespace opforge
