// What the generic suites cannot know of cross_entropy: targets, and values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

std::vector<TestRun> loss(std::int64_t columns, std::vector<double> x, std::vector<double> target,
                          const ValueMap& attributes = {}) {
  const auto rows = static_cast<std::int64_t>(target.size());
  return run_operator(
      "loss.cross_entropy", {{"T", DType::kF32}},
      {{"x", {{rows, columns}, std::move(x)}}, {"target", {{rows}, std::move(target)}}}, {rows},
      attributes);
}

// Logits log(1), log(2), log(5): probabilities 1/8, 2/8, 5/8.
TEST(CrossEntropy, LogOfTheProbability) {
  const double a = std::log(2.0), b = std::log(5.0);
  for (const TestRun& run : loss(3, {0, a, b, 0, a, b}, {0, 2})) {
    EXPECT_NEAR(run.output[0], std::log(8.0), 1e-6) << run.variant;
    EXPECT_NEAR(run.output[1], std::log(1.6), 1e-6) << run.variant;
  }
  for (const TestRun& run : loss(3, {0, a, b}, {0}, {{"label_smoothing", 0.3}})) {
    EXPECT_NEAR(run.output[0], std::log(8.0) - 0.3 * (a + b) / 3, 1e-6) << run.variant;
  }
  for (const TestRun& run : loss(3, {0, a, b}, {0}, {{"z_loss", 0.5}})) {
    EXPECT_NEAR(run.output[0], std::log(8.0) + 0.5 * std::log(8.0) * std::log(8.0), 1e-5)
        << run.variant;
  }
}

TEST(CrossEntropy, TargetsThatAreNoClass) {
  for (const TestRun& run : loss(2, {1, 2, 1, 2, 1, 2, 1, 2}, {-100, 2, -1, 1})) {
    EXPECT_EQ(run.output[0], 0) << run.variant;
    EXPECT_TRUE(std::isnan(run.output[1])) << run.variant;
    EXPECT_TRUE(std::isnan(run.output[2])) << run.variant;
    EXPECT_NEAR(run.output[3], std::log1p(std::exp(-1.0)), 1e-6) << run.variant;
  }
  for (const TestRun& run : loss(2, {1, 2}, {1}, {{"ignore_index", std::int64_t{1}}}))
    EXPECT_EQ(run.output[0], 0) << run.variant;
}

TEST(CrossEntropy, MaskedLogits) {
  for (const TestRun& run : loss(4, {-kInf, 3, 3, -kInf, -kInf, 3, 3, -kInf}, {1, 0})) {
    EXPECT_NEAR(run.output[0], std::log(2.0), 1e-6) << run.variant;
    EXPECT_EQ(run.output[1], kInf) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
