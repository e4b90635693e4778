// Order statistics of timing samples. Medians and quantiles only: timing noise has a long tail and
// no mean worth naming.
#pragma once

#include <cstddef>
#include <span>

namespace opforge {

// The q-quantile (0 <= q <= 1) of ascending `sorted` by linear interpolation between the two
// nearest ranks (Hyndman and Fan's type 7: position q * (n - 1)). NaN for an empty list.
double quantile_of_sorted(std::span<const double> sorted, double q);

struct Summary {
  std::size_t count = 0;
  double median = 0, p20 = 0, p80 = 0, least = 0, most = 0;
};
// NaN fields for an empty list.
Summary summarise(std::span<const double> samples);

// candidate[i] / incumbent[i] over rounds in which both were timed back to back. Equal lengths;
// zeros and NaN in the incumbent are left out.
Summary paired_ratio(std::span<const double> candidate, std::span<const double> incumbent);

// What an A/A pair shows: the larger of |p80 - 1| and |p20 - 1| of the ratio of two readings of the
// same thing.
double relative_noise(std::span<const double> first, std::span<const double> second);

}  // namespace opforge
