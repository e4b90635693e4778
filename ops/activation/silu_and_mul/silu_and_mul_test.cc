// What the generic suites cannot know of silu_and_mul: which half is the gate, and its values.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

// 1 / (1 + 1/e) = 0.7310585786; silu(-100) = -100 exp(-100), a subnormal of f32.
TEST(SiluAndMul, FirstHalfIsTheGate) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto runs = run_operator("activation.silu_and_mul", {{"T", DType::kF32}},
                                 {{"x", {{1, 8}, {1, -1, -100, -inf, 2, 10, 1, 3}}}}, {1, 4});
  for (const TestRun& run : runs) {
    EXPECT_NEAR(run.output[0], 2 * 0.7310585786, 1e-6) << run.variant;
    EXPECT_NEAR(run.output[1], -10 * 0.2689414214, 1e-6) << run.variant;
    EXPECT_NEAR(run.output[2], -3.7200759760e-42, 100 * 0x1p-149) << run.variant;
    EXPECT_EQ(run.output[3], 0) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
