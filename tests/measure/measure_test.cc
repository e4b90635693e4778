// The measuring loop against a clock that only moves when the fake device works.
#include "measure/measure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace opforge {
namespace {

struct FakeDevice : Timer {
  double now_us = 0;
  std::vector<std::string> log;  // who ran, in order
  bool can_record = false;
  int recordings = 0;

  struct Watch : Stopwatch {
    FakeDevice& device;
    std::vector<double> marks;
    explicit Watch(FakeDevice& d) : device(d) {}
    Status mark() override {
      marks.push_back(device.now_us);
      return {};
    }
    Result<std::vector<double>> read_us() override {
      std::vector<double> out;
      for (double m : marks) out.push_back(m - marks.front());
      marks.clear();
      return out;
    }
  };
  struct Tape : Recording {
    FakeDevice& device;
    double length_us;
    Tape(FakeDevice& d, double us) : device(d), length_us(us) {}
    Status queue(StreamHandle) override {
      device.now_us += length_us;
      return {};
    }
  };
  Result<std::unique_ptr<Stopwatch>> open(int, StreamHandle, std::size_t) override {
    return std::make_unique<Watch>(*this);
  }
  std::vector<std::string> copy_methods() const override { return {"fake"}; }
  Status queue_copy(std::size_t, int, StreamHandle, void*, const void*, std::size_t) override {
    return {};
  }
  Result<std::unique_ptr<Recording>> record(
      int, const std::function<Status(StreamHandle)>& queue) override {
    if (!can_record) return fail(Code::kUnavailable, "no recordings");
    const double before = now_us;
    OPFORGE_TRY(queue(nullptr));
    auto tape = std::make_unique<Tape>(*this, now_us - before);
    now_us = before;  // recording itself takes no device time
    ++recordings;
    return tape;
  }

  Subject works(std::string name, double us, std::size_t sets = 1) {
    return {name,
            [this, name, us](std::size_t set, StreamHandle) {
              now_us += us;
              log.push_back(name + ":" + std::to_string(set));
              return Status{};
            },
            sets};
  }
};

TEST(Measure, GivesTheTimeOfOneRun) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("slow", 20), device.works("fast", 10)};
  Floor floor;
  floor.bytes = 1e6;
  const auto out = measure(device, 0, subjects, floor, {});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_NEAR(out->readings[0].time_us.median, 20, 1e-9);
  EXPECT_NEAR(out->readings[1].time_us.median, 10, 1e-9);
  EXPECT_NEAR(out->readings[1].bytes_per_second, 1e11, 1);  // 1e6 bytes in 10 us
  EXPECT_NEAR(out->ratios[1].median, 0.5, 1e-9);
  EXPECT_NEAR(out->noise, 0, 1e-9);
  EXPECT_EQ(out->rounds, 21u);
  EXPECT_EQ(out->incumbent_again.size(), 21u);
}

TEST(Measure, CalibratesTheRunsOfASample) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("a", 10)};
  MeasureOptions options;
  options.sample_us = 400;
  const auto out = measure(device, 0, subjects, {}, options);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->readings[0].runs_per_sample, 40u);
}

TEST(Measure, SubjectsTakeTurns) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("a", 500), device.works("b", 500)};
  MeasureOptions options;
  options.rounds = 6;
  options.warmup_runs = 0;
  ASSERT_TRUE(measure(device, 0, subjects, {}, options));
  // One calibrating sample of each of the three lanes (a, b, a again), then rounds that start with
  // another lane each.
  const std::vector<std::string> rounds(device.log.begin() + 3, device.log.begin() + 3 + 9);
  const std::vector<std::string> expected{"a:0", "b:0", "a:0", "b:0", "a:0",
                                          "a:0", "a:0", "a:0", "b:0"};
  EXPECT_EQ(rounds, expected);
}

TEST(Measure, ColdRunsRotateBuffersAndWarmOnesDoNot) {
  for (const CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
    FakeDevice device;
    const std::vector<Subject> subjects{device.works("a", 500, 3)};
    MeasureOptions options;
    options.cache = mode;
    options.warmup_runs = 0;
    ASSERT_TRUE(measure(device, 0, subjects, {}, options));
    std::size_t at_zero = 0;
    for (const auto& entry : device.log) at_zero += entry == "a:0";
    if (mode == CacheMode::kWarm) {
      // The A/A lane keeps the set it starts with; the incumbent's own lane stays at 0.
      EXPECT_GE(at_zero, 22u);
    } else {
      EXPECT_NEAR(static_cast<double>(at_zero) / static_cast<double>(device.log.size()), 1.0 / 3,
                  0.05);
    }
  }
}

TEST(Measure, ImpossibleReadingsAreRejected) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("honest", 100), device.works("too good", 10)};
  Floor floor;
  floor.bytes = 95e6;
  floor.bytes_per_second = 1e12;  // the floor is 95 us
  const auto out = measure(device, 0, subjects, floor, {});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->readings[0].rejected, "");
  EXPECT_NEAR(out->readings[0].share_of_ceiling, 0.95, 1e-9);
  EXPECT_NE(out->readings[1].rejected.find("impossible"), std::string::npos);
  EXPECT_NE(out->readings[1].rejected.find("95.000 us"), std::string::npos);
}

TEST(Measure, TheFlopFloorCountsToo) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("a", 10)};
  Floor floor;
  floor.flops = 1e9;
  floor.flops_per_second = 1e13;  // 100 us
  const auto out = measure(device, 0, subjects, floor, {});
  ASSERT_TRUE(out);
  EXPECT_NE(out->readings[0].rejected, "");
}

TEST(Measure, AWarmRunInTheCacheMayBeatTheMemory) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("a", 10)};
  Floor floor;
  floor.bytes = 95e6;
  floor.bytes_per_second = 1e12;
  floor.fits_cache = true;
  MeasureOptions options;
  options.cache = CacheMode::kWarm;
  const auto out = measure(device, 0, subjects, floor, options);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->readings[0].rejected, "");
}

TEST(Measure, ZeroNegativeAndNaNTimesAreRejected) {
  for (const double step : {0.0, -5.0, std::numeric_limits<double>::quiet_NaN()}) {
    FakeDevice device;
    const std::vector<Subject> subjects{device.works("good", 50),
                                        {"bad", [&](std::size_t, StreamHandle) {
                                           if (std::isnan(step))
                                             return device.now_us = step, Status{};
                                           device.now_us += step;
                                           return Status{};
                                         }}};
    const auto out = measure(device, 0, subjects, {}, {});
    ASSERT_TRUE(out);
    EXPECT_NE(out->readings[1].rejected, "") << step;
  }
}

TEST(Measure, TheAAPairShowsTheNoise) {
  FakeDevice device;
  int runs = 0;
  const std::vector<Subject> subjects{{"jittery", [&](std::size_t, StreamHandle) {
                                         device.now_us += (runs++ % 2) != 0 ? 1300 : 1000;
                                         return Status{};
                                       }}};
  MeasureOptions options;
  options.rounds = 20;
  const auto out = measure(device, 0, subjects, {}, options);
  ASSERT_TRUE(out);
  EXPECT_GT(out->noise, 0.2);
}

TEST(Measure, ShortRunsAreReplayedFromARecording) {
  FakeDevice device;
  device.can_record = true;
  const std::vector<Subject> subjects{device.works("a", 2, 5)};
  const auto out = measure(device, 0, subjects, {}, {});
  ASSERT_TRUE(out);
  EXPECT_EQ(device.recordings, 2);  // the incumbent and its A/A twin
  EXPECT_NEAR(out->readings[0].time_us.median, 2, 1e-9);
}

TEST(Measure, AFailingSubjectIsNamed) {
  FakeDevice device;
  const std::vector<Subject> subjects{device.works("good", 5),
                                      {"broken", [](std::size_t, StreamHandle) {
                                         return Status(fail(Code::kDriver, "launch failed"));
                                       }}};
  const auto out = measure(device, 0, subjects, {}, {});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::kDriver);
  EXPECT_NE(out.error().message.find("broken"), std::string::npos);
}

TEST(Measure, NothingToMeasureAndInterruptionAreErrors) {
  FakeDevice device;
  EXPECT_EQ(measure(device, 0, {}, {}, {}).error().code, Code::kInvalidArgument);
  const std::vector<Subject> subjects{device.works("a", 5)};
  MeasureOptions options;
  options.cancelled = [] { return true; };
  EXPECT_EQ(measure(device, 0, subjects, {}, options).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace opforge
