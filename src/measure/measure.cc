#include "measure/measure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace opforge {
namespace {

constexpr std::size_t kLeastRounds = 5;
constexpr std::size_t kMostRecorded = 2048;
constexpr double kShortRun_us =
    200;  // below this the gaps between launches would be timed: replay a recording instead

// One thing that is timed in every round: a subject, or the incumbent for the second time.
struct Lane {
  const Subject* subject = nullptr;
  std::size_t runs = 1;
  std::size_t next_set = 0;
  std::unique_ptr<Recording> recording;  // `runs` runs; null: queued one by one
  std::vector<double> samples;
};

class Session {
 public:
  Session(Timer& timer, int ordinal, const MeasureOptions& options)
      : timer_(timer), ordinal_(ordinal), options_(options) {}
  ~Session() {
    if (own_stream_) timer_.release_stream(ordinal_, stream_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status open() {
    if (auto stream = timer_.make_stream(ordinal_)) {
      stream_ = *stream;
      own_stream_ = true;
    } else if (stream.error().code != Code::kUnavailable) {
      return fail(stream.error());
    }
    OPFORGE_ASSIGN(watch_, timer_.open(ordinal_, stream_, 2));
    return {};
  }

  Status queue_runs(Lane& lane, StreamHandle stream) {
    for (std::size_t i = 0; i < lane.runs; ++i) {
      if (auto status = lane.subject->queue(lane.next_set, stream); !status) {
        Error error = status.error();
        error.message = fmt::format("while timing {}: {}", lane.subject->name, error.message);
        return fail(std::move(error));
      }
      if (options_.cache == CacheMode::kCold)
        lane.next_set = (lane.next_set + 1) % lane.subject->sets;
    }
    return {};
  }

  // Device time of the lane's runs, in us for one run.
  Result<double> sample(Lane& lane) {
    OPFORGE_TRY(watch_->mark());
    if (lane.recording) {
      OPFORGE_TRY(lane.recording->queue(stream_));
    } else {
      OPFORGE_TRY(queue_runs(lane, stream_));
    }
    OPFORGE_TRY(watch_->mark());
    OPFORGE_ASSIGN(const std::vector<double> at, watch_->read_us());
    if (at.size() != 2) {
      return fail(Code::kInternal,
                  fmt::format("the stopwatch read {} marks, expected 2", at.size()), "measure");
    }
    return (at[1] - at[0]) / static_cast<double>(lane.runs);
  }

  Status calibrate(Lane& lane) {
    for (std::size_t i = 0; i < options_.warmup_runs; ++i) OPFORGE_TRY(sample(lane));
    double run_us = 0;
    // The first estimates may include a start-up: grow until a sample is long enough to be trusted.
    for (int step = 0; step < 8; ++step) {
      OPFORGE_ASSIGN(run_us, sample(lane));
      const double total_us = run_us * static_cast<double>(lane.runs);
      if (!(run_us > 0) || total_us >= options_.sample_us / 2 ||
          lane.runs >= options_.max_runs_per_sample)
        break;
      const double wanted = std::ceil(options_.sample_us / run_us);
      lane.runs =
          static_cast<std::size_t>(std::clamp(wanted, static_cast<double>(lane.runs),
                                              static_cast<double>(options_.max_runs_per_sample)));
    }
    if (run_us > 0 && options_.allow_recording && run_us < kShortRun_us && lane.runs > 1)
      return record(lane);
    return {};
  }

 private:
  Status record(Lane& lane) {
    // A cold recording walks every buffer set: otherwise the few that it knows could stay in the
    // cache.
    if (options_.cache == CacheMode::kCold)
      lane.runs = std::max(lane.runs, std::min(lane.subject->sets, kMostRecorded));
    auto recording =
        timer_.record(ordinal_, [&](StreamHandle stream) { return queue_runs(lane, stream); });
    if (!recording)
      return recording.error().code == Code::kUnavailable ? Status{} : fail(recording.error());
    lane.recording = std::move(*recording);
    return sample(lane).map([](double) {});
  }

  Timer& timer_;
  int ordinal_;
  const MeasureOptions& options_;
  StreamHandle stream_ = nullptr;
  bool own_stream_ = false;
  std::unique_ptr<Stopwatch> watch_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Why a reading cannot be believed; empty when it can.
std::string judge(const Reading& reading, const Floor& floor, const MeasureOptions& options,
                  double noise) {
  for (double sample : reading.samples_us) {
    if (!std::isfinite(sample) || sample <= 0) {
      return fmt::format("a sample took {} us: times must be finite and above zero", sample);
    }
  }
  if (options.cache == CacheMode::kWarm && floor.fits_cache) return {};
  const double least = floor.least_us();
  const double slack = std::min(0.5, options.floor_slack + noise);
  if (least > 0 && reading.time_us.median < least * (1 - slack)) {
    return fmt::format(
        "impossible: {:.3f} us is below the floor of {:.3f} us (least bytes or operations over the "
        "measured "
        "ceiling) by more than {:.0f} %: the run did not do the work, or was served from a cache",
        reading.time_us.median, least, slack * 100);
  }
  return {};
}

Reading read_lane(Lane& lane, const Floor& floor) {
  Reading out;
  out.name = lane.subject->name;
  out.runs_per_sample = lane.runs;
  out.samples_us = std::move(lane.samples);
  out.time_us = summarise(out.samples_us);
  if (out.time_us.median > 0) {
    out.bytes_per_second = floor.bytes / out.time_us.median * 1e6;
    out.flops_per_second = floor.flops / out.time_us.median * 1e6;
    if (floor.bytes_per_second > 0)
      out.share_of_ceiling = out.bytes_per_second / floor.bytes_per_second;
  }
  return out;
}

Status run_rounds(Session& session, std::vector<Lane>& lanes, const MeasureOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t rounds = std::max(options.rounds, kLeastRounds);
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round >= kLeastRounds && seconds_since(start) > options.time_limit_s) break;
    for (std::size_t turn = 0; turn < lanes.size(); ++turn) {
      if (options.cancelled && options.cancelled())
        return fail(Code::kCancelled, "measuring was interrupted", "measure");
      Lane& lane = lanes[(turn + round) % lanes.size()];
      OPFORGE_ASSIGN(const double sample, session.sample(lane));
      lane.samples.push_back(sample);
    }
  }
  return {};
}

}  // namespace

std::string_view cache_mode_name(CacheMode mode) {
  return mode == CacheMode::kWarm ? "warm" : "cold";
}

double Floor::least_us() const {
  const double moving = bytes_per_second > 0 ? bytes / bytes_per_second * 1e6 : 0;
  const double doing = flops_per_second > 0 ? flops / flops_per_second * 1e6 : 0;
  return std::max(moving, doing);
}

Result<Comparison> measure(Timer& timer, int ordinal, std::span<const Subject> subjects,
                           const Floor& floor, const MeasureOptions& options) {
  if (subjects.empty())
    return fail(Code::kInvalidArgument, "nothing to measure: the list of subjects is empty",
                "measure");
  Session session(timer, ordinal, options);
  OPFORGE_TRY(session.open());
  std::vector<Lane> lanes(subjects.size() + 1);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].subject = &subjects[i < subjects.size() ? i : 0];
    if (lanes[i].subject->sets == 0) {
      return fail(Code::kInvalidArgument, lanes[i].subject->name + " has no buffer set to run on",
                  "measure");
    }
  }
  // The A/A lane rotates from the middle of the sets, so that it never finds what the incumbent has
  // just left in a cache.
  lanes.back().next_set = subjects[0].sets / 2;
  for (Lane& lane : lanes) OPFORGE_TRY(session.calibrate(lane));
  OPFORGE_TRY(run_rounds(session, lanes, options));

  Comparison out;
  out.cache = options.cache;
  out.rounds = lanes.front().samples.size();
  out.incumbent_again = std::move(lanes.back().samples);
  lanes.pop_back();
  for (Lane& lane : lanes) out.readings.push_back(read_lane(lane, floor));
  const auto& incumbent = out.readings.front().samples_us;
  out.noise = relative_noise(out.incumbent_again, incumbent);
  for (Reading& reading : out.readings) {
    reading.rejected = judge(reading, floor, options, std::isfinite(out.noise) ? out.noise : 0);
    const bool first = &reading == &out.readings.front();
    out.ratios.push_back(paired_ratio(first ? out.incumbent_again : reading.samples_us, incumbent));
  }
  return out;
}

}  // namespace opforge
