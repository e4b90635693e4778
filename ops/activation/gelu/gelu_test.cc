// What the generic suites cannot know of gelu: values from tables of the normal distribution.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<TestRun> gelu(DType dtype, const char* form, std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return run_operator("activation.gelu", {{"T", dtype}}, {{"x", {{1, n}, std::move(values)}}},
                      {1, n}, {{"form", form}});
}

// x Phi(x), Phi from M. Abramowitz and I. Stegun, tables 26.1 and 26.2.
TEST(Gelu, ErfFormFollowsTheNormalDistribution) {
  for (const TestRun& run : gelu(DType::kF32, "erf", {1, -1, -3, -5, -10, 0, -kInf, kInf})) {
    const double want[] = {0.84134474607,    -0.15865525393,    -3 * 0.00134989803,
                           -5 * 2.866516e-7, -10 * 7.61985e-24, 0};
    for (int i = 0; i < 6; ++i)
      EXPECT_NEAR(run.output[i], want[i], 1e-5 * std::fabs(want[i])) << run.variant << " " << i;
    EXPECT_EQ(run.output[6], 0) << run.variant;
    EXPECT_EQ(run.output[7], kInf) << run.variant;
  }
}

// 0.5 (1 + tanh(0.7978845608 * 1.044715)) = 0.8411919906; at -3 the forms differ by a tenth.
TEST(Gelu, TanhFormIsAnotherFunction) {
  for (const TestRun& run : gelu(DType::kF32, "tanh", {1, -1, -3, -kInf, kInf})) {
    EXPECT_NEAR(run.output[0], 0.8411919906, 1e-6) << run.variant;
    EXPECT_NEAR(run.output[1], -0.1588080094, 1e-6) << run.variant;
    EXPECT_NEAR(run.output[2], -0.0036373920, 1e-8) << run.variant;
    EXPECT_EQ(run.output[3], 0) << run.variant;
    EXPECT_EQ(run.output[4], kInf) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
