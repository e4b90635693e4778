#include "measure/stats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace opforge {

double quantile_of_sorted(std::span<const double> sorted, double q) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  if (low + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(low);
  return sorted[low] + part * (sorted[low + 1] - sorted[low]);
}

Summary summarise(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  Summary out;
  out.count = sorted.size();
  out.median = quantile_of_sorted(sorted, 0.5);
  out.p20 = quantile_of_sorted(sorted, 0.2);
  out.p80 = quantile_of_sorted(sorted, 0.8);
  out.least = quantile_of_sorted(sorted, 0);
  out.most = quantile_of_sorted(sorted, 1);
  return out;
}

Summary paired_ratio(std::span<const double> candidate, std::span<const double> incumbent) {
  std::vector<double> ratios;
  const std::size_t count = std::min(candidate.size(), incumbent.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (!(incumbent[i] > 0) || std::isnan(candidate[i])) continue;
    ratios.push_back(candidate[i] / incumbent[i]);
  }
  return summarise(ratios);
}

double relative_noise(std::span<const double> first, std::span<const double> second) {
  const Summary ratio = paired_ratio(first, second);
  return std::max(std::abs(ratio.p80 - 1), std::abs(ratio.p20 - 1));
}

}  // namespace opforge
