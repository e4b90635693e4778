// What the generic suites cannot know of rms_norm: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

std::vector<TestRun> rms_norm(DType x, DType w, std::int64_t columns, std::vector<double> values,
                              double weight, double eps, bool zero_centered = false) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  return run_operator("norm.rms_norm", {{"T", x}, {"W", w}},
                      {{"x", {{rows, columns}, std::move(values)}},
                       {"w", {{columns}, std::vector<double>(columns, weight)}}},
                      {rows, columns},
                      {{"eps", eps}, {"zero_centered", std::int64_t{zero_centered}}});
}

// The sum of squares is 7.4e8, far above f16's 65504.
TEST(RmsNorm, SquaresDoNotOverflowInF16) {
  for (const DType w : {DType::kF16, DType::kF32}) {
    for (const TestRun& run :
         rms_norm(DType::kF16, w, 8192, std::vector<double>(8192, 300), 1, 1e-6)) {
      for (const double v : run.output) ASSERT_EQ(v, 1) << run.variant;
    }
  }
}

// +-c in turn: the root mean square is c, the result +-1, although c^2 is no f32.
TEST(RmsNorm, SquaresOutsideF32) {
  for (const double c : {0x1p100, 0x1.8p127, 0x1p-100, 0x1p-126}) {
    for (const std::int64_t columns : {6, 1000, 20000}) {
      std::vector<double> x(columns);
      for (std::int64_t i = 0; i < columns; ++i) x[i] = i % 2 == 0 ? c : -c;
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const TestRun& run : rms_norm(dtype, dtype, columns, x, 1, 0)) {
          for (std::int64_t i = 0; i < columns; ++i) {
            ASSERT_NEAR(run.output[i], i % 2 == 0 ? 1 : -1, 1e-6) << run.variant << " " << c;
          }
        }
      }
    }
  }
}

TEST(RmsNorm, InfinityAndNan) {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  for (const TestRun& run :
       rms_norm(DType::kF32, DType::kF32, 4, {1, inf, 2, 3, 1, nan, 2, 3, 1, 1, 1, 1}, 1, 0)) {
    EXPECT_EQ(run.output[0], 0) << run.variant;
    EXPECT_TRUE(std::isnan(run.output[1])) << run.variant;
    for (int i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(run.output[i])) << run.variant;
    for (int i = 8; i < 12; ++i) EXPECT_EQ(run.output[i], 1) << run.variant;
  }
}

TEST(RmsNorm, ZeroCenteredWeightAddsOne) {
  for (const TestRun& run :
       rms_norm(DType::kBF16, DType::kF32, 128, std::vector<double>(256, 4), 0.5, 0, true)) {
    for (const double v : run.output) ASSERT_EQ(v, 1.5) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
