// What the generic suites cannot know of fused_add_rms_norm: values worked out by hand.
#include <gtest/gtest.h>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

// h = 3 and -3 in turn: the root mean square is 3, y = +-w. In bf16 256 + 1 is not representable:
// y follows the exact sum 257 / 257, where a sum rounded to bf16 would give the same 1 only by
// luck.
TEST(FusedAddRmsNorm, NormalisesTheSum) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto runs = run_operator("norm.fused_add_rms_norm", {{"T", dtype}, {"W", dtype}},
                                   {{"x", {{1, 4}, {1, -1, 2, -2}}},
                                    {"residual", {{1, 4}, {2, -2, 1, -1}}},
                                    {"w", {{4}, {1, 2, 0.5, 1}}}},
                                   {1, 4}, {{"eps", 0.0}});
    for (const TestRun& run : runs) {
      const double want[] = {1, -2, 0.5, -1};
      for (int i = 0; i < 4; ++i) EXPECT_EQ(run.output[i], want[i]) << run.variant;
    }
  }
}

// h = {257, 257 - 2^-7 ...}: 256 + 1 = 257 is no bf16 (256 and 258 are); with the second element
// 258, rms = sqrt((257^2 + 258^2) / 2) = 257.5005; y = 0.998056, 1.001940. Rounded to bf16 sums
// (256, 258) would give 0.99611, 1.00389.
TEST(FusedAddRmsNorm, TheSumIsNotRounded) {
  const auto runs = run_operator(
      "norm.fused_add_rms_norm", {{"T", DType::kBF16}, {"W", DType::kF32}},
      {{"x", {{1, 2}, {1, 2}}}, {"residual", {{1, 2}, {256, 256}}}, {"w", {{2}, {64, 64}}}}, {1, 2},
      {{"eps", 0.0}});
  for (const TestRun& run : runs) {
    EXPECT_NEAR(run.output[0], 64 * 0.998056, 0.126) << run.variant;  // half an ulp of bf16
    EXPECT_NEAR(run.output[1], 64 * 1.001940, 0.251) << run.variant;
    EXPECT_GT(run.output[0], 64 * 0.9968) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
