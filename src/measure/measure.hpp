// Timing of runs on a device: calibrated, interleaved, with an A/A pair and a floor below which no
// reading is believed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measure/stats.hpp"
#include "measure/timer.hpp"
#include "runtime/launcher.hpp"

namespace opforge {

enum class CacheMode : std::uint8_t {
  kWarm,  // the same buffers again and again
  kCold,  // buffers rotate through more memory than the last-level cache holds
};
std::string_view cache_mode_name(CacheMode mode);  // "warm", "cold"

// Something that can be timed. `queue` puts one run on buffer set `set` into `stream`, and returns
// before or after it ran.
struct Subject {
  std::string name;
  std::function<Status(std::size_t set, StreamHandle stream)> queue;
  std::size_t sets = 1;  // buffer sets that it has; cold runs go through all of them in turn
};

// What a run has to move and do at least (Operator::work), and what the device can do. Zeros:
// unknown, no floor.
struct Floor {
  double bytes = 0, flops = 0;
  double bytes_per_second = 0;  // the measured copy ceiling
  double flops_per_second = 0;
  // A warm run may live in the cache: the bytes floor is then meaningless and is not applied.
  bool fits_cache = false;
  double least_us() const;  // the larger of the two times; 0 when unknown
};

struct MeasureOptions {
  CacheMode cache = CacheMode::kCold;
  double sample_us =
      400;  // a sample is as many runs as take about this long; its value is the time of one run
  std::size_t max_runs_per_sample = 512;
  std::size_t rounds =
      21;  // samples of each subject, at least 5; subjects take turns within a round
  std::size_t warmup_runs = 3;
  double time_limit_s = 10;   // fewer rounds are made when this is spent, but never fewer than 5
  double floor_slack = 0.10;  // a reading below (1 - slack - noise) * floor is impossible
  bool allow_recording =
      true;  // short device runs are replayed from a recording where the device has them
  std::function<bool()> cancelled;
};

struct Reading {
  std::string name;
  Summary time_us;                 // of one run
  std::vector<double> samples_us;  // by round
  std::size_t runs_per_sample = 0;
  double bytes_per_second = 0, flops_per_second = 0;  // from the floor's bytes and the median
  double share_of_ceiling = 0;                        // bytes_per_second / ceiling; 0 when unknown
  std::string rejected;  // why this reading cannot be believed; empty: it can
};

struct Comparison {
  std::vector<Reading> readings;  // as the subjects; the first is the incumbent
  std::vector<double>
      incumbent_again;          // the A/A pair: the incumbent timed a second time in every round
  double noise = 0;             // relative_noise of the A/A pair
  std::vector<Summary> ratios;  // subject / incumbent by paired rounds; the first is the A/A pair's
  std::size_t rounds = 0;
  CacheMode cache = CacheMode::kCold;
};

// Time the subjects in turn, starting each round with another one. A subject whose run fails ends
// the measurement with that error, naming it. Times that are zero, negative or NaN reject a
// reading, as does a median below the floor.
Result<Comparison> measure(Timer& timer, int ordinal, std::span<const Subject> subjects,
                           const Floor& floor, const MeasureOptions& options);

}  // namespace opforge
