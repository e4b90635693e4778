// What the generic suites cannot know of attention: masks, groups, and values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

constexpr const char* kOp = "attention.scaled_dot_product_attention";

// Keys of width 1 with scores 0 and log(3): probabilities 1/4 and 3/4 of values 4 and 8.
TEST(Attention, WeightsValuesByProbability) {
  for (const TestRun& run : run_operator(kOp, {{"T", DType::kF32}},
                                         {{"q", {{1, 1, 1, 1}, {1}}},
                                          {"k", {{1, 1, 2, 1}, {0, std::log(3.0)}}},
                                          {"v", {{1, 1, 2, 1}, {4, 8}}}},
                                         {1, 1, 1, 1}, {{"scale", 1.0}})) {
    EXPECT_NEAR(run.output[0], 7, 1e-5) << run.variant;
  }
}

// Equal keys: means of the values that take part. Two queries, three keys.
std::vector<TestRun> means(const ValueMap& attributes, std::map<std::string, TestTensor> more = {},
                           std::int64_t queries = 2) {
  more["q"] = {{1, 1, queries, 2}, std::vector<double>(queries * 2, 1)};
  more["k"] = {{1, 1, 3, 2}, std::vector<double>(6, 1)};
  more["v"] = {{1, 1, 3, 2}, {1, 10, 2, 20, 6, 60}};
  return run_operator(kOp, {{"T", DType::kBF16}}, more, {1, 1, queries, 2}, attributes);
}

TEST(Attention, CausalOfBothKinds) {
  for (const TestRun& run : means({{"causal", "lower_right"}}))
    EXPECT_EQ(run.output, (std::vector<double>{1.5, 15, 3, 30})) << run.variant;
  for (const TestRun& run : means({{"causal", "upper_left"}}))
    EXPECT_EQ(run.output, (std::vector<double>{1, 10, 1.5, 15})) << run.variant;
  // More queries than keys: the first ones see nothing.
  for (const TestRun& run : means({{"causal", "lower_right"}}, {}, 4))
    EXPECT_EQ(run.output, (std::vector<double>{0, 0, 1, 10, 1.5, 15, 3, 30})) << run.variant;
}

TEST(Attention, MasksOfBothKinds) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const TestRun& run : means({}, {{"mask", {{1, 1, 2, 3}, {1, 0, 1, 0, 0, 0}}}}))
    EXPECT_EQ(run.output, (std::vector<double>{3.5, 35, 0, 0})) << run.variant;
  for (const TestRun& run : means({}, {{"bias", {{1, 1, 2, 3}, {-inf, 0, 0, 0, -inf, -inf}}}}))
    EXPECT_EQ(run.output, (std::vector<double>{4, 40, 1, 10})) << run.variant;
}

// Four query heads, two key heads: heads 0 and 1 share the first.
TEST(Attention, GroupedQueries) {
  for (const TestRun& run : run_operator(kOp, {{"T", DType::kF16}},
                                         {{"q", {{1, 4, 1, 1}, {1, 1, 1, 1}}},
                                          {"k", {{1, 2, 1, 1}, {1, 1}}},
                                          {"v", {{1, 2, 1, 1}, {5, 7}}}},
                                         {1, 4, 1, 1}, {{"groups", std::int64_t{2}}})) {
    EXPECT_EQ(run.output, (std::vector<double>{5, 5, 7, 7})) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
