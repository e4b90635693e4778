#include "measure/stats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace opforge {
namespace {

TEST(Stats, QuantilesByHand) {
  // Type 7 of 10, 20, 30, 40: position q * 3. q = 0.5 -> 1.5 -> 25; q = 0.2 -> 0.6 -> 16; q = 0.8
  // -> 2.4 -> 34.
  const std::vector<double> four{10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(four, 0.5), 25);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(four, 0.2), 16);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(four, 0.8), 34);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(four, 0), 10);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(four, 1), 40);
}

TEST(Stats, QuantilesOfSmallLists) {
  EXPECT_TRUE(std::isnan(quantile_of_sorted({}, 0.5)));
  const std::vector<double> one{7};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(one, 0.2), 7);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(one, 0.8), 7);
  const std::vector<double> two{1, 2};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(two, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(two, 0.8), 1.8);
}

TEST(Stats, QuantileOutsideItsRangeIsClamped) {
  const std::vector<double> two{1, 2};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(two, -3), 1);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(two, 9), 2);
}

TEST(Stats, SummarySortsAndIsRobust) {
  const std::vector<double> samples{5, 1, 3, 2, 1000};  // one outlier does not move the median
  const Summary s = summarise(samples);
  EXPECT_EQ(s.count, 5u);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.p20, 1.8);   // position 0.8 between 1 and 2
  EXPECT_NEAR(s.p80, 204, 1e-9);  // position 3.2 between 5 and 1000: 5 + 0.2 * 995
  EXPECT_DOUBLE_EQ(s.least, 1);
  EXPECT_DOUBLE_EQ(s.most, 1000);
}

TEST(Stats, PairedRatioFollowsRoundsAndSkipsBadOnes) {
  // A drift that hits both alike leaves the ratio alone.
  const std::vector<double> incumbent{100, 200, 400, 0, 800};
  const std::vector<double> candidate{50, 100, 200, 7, std::numeric_limits<double>::quiet_NaN()};
  const Summary ratio = paired_ratio(candidate, incumbent);
  EXPECT_EQ(ratio.count, 3u);
  EXPECT_DOUBLE_EQ(ratio.median, 0.5);
  EXPECT_DOUBLE_EQ(ratio.p80, 0.5);
}

TEST(Stats, NoiseIsTheWiderSide) {
  // Ratios 0.9, 1.0, 1.2: p20 at position 0.4 -> 0.94, p80 at 1.6 -> 1.12.
  const std::vector<double> first{90, 100, 120};
  const std::vector<double> second{100, 100, 100};
  EXPECT_NEAR(relative_noise(first, second), 0.12, 1e-12);
}

}  // namespace
}  // namespace opforge
