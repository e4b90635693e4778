// What the generic suites cannot know of rope: which elements form a pair, and where they turn to.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

// Two positions: not turned, and turned by a right angle: (a, b) -> (-b, a).
std::vector<TestRun> rope(std::int64_t interleaved, std::int64_t offset, std::int64_t pairs) {
  std::vector<double> cos(2 * pairs, 0), sin(2 * pairs, 1);
  for (std::int64_t i = 0; i < pairs; ++i) cos[i] = 1, sin[i] = 0;
  return run_operator("embedding.rope", {{"T", DType::kBF16}},
                      {{"x", {{1, 2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}},
                       {"cos", {{2, pairs}, cos}},
                       {"sin", {{2, pairs}, sin}}},
                      {1, 2, 1, 4}, {{"interleaved", interleaved}, {"offset", offset}});
}

TEST(Rope, PairsOfBothKinds) {
  for (const TestRun& run : rope(0, 0, 2))
    EXPECT_EQ(run.output, (std::vector<double>{1, 2, 3, 4, -7, -8, 5, 6})) << run.variant;
  for (const TestRun& run : rope(1, 0, 2))
    EXPECT_EQ(run.output, (std::vector<double>{1, 2, 3, 4, -6, 5, -8, 7})) << run.variant;
}

TEST(Rope, PartialDimsAndOffsets) {
  for (const TestRun& run : rope(0, 0, 1))
    EXPECT_EQ(run.output, (std::vector<double>{1, 2, 3, 4, -6, 5, 7, 8})) << run.variant;
  // Position 1 for the first token; the second is outside of the table.
  for (const TestRun& run : rope(0, 1, 2)) {
    const double want[] = {-3, -4, 1, 2};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(run.output[i], want[i]) << run.variant;
    for (int i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(run.output[i])) << run.variant;
  }
}

TEST(Rope, PositionsOfTokens) {
  for (const TestRun& run : run_operator("embedding.rope", {{"T", DType::kF32}},
                                         {{"x", {{1, 2, 1, 2}, {1, 2, 3, 4}}},
                                          {"cos", {{2, 1}, {1, 0}}},
                                          {"sin", {{2, 1}, {0, 1}}},
                                          {"positions", {{1, 2}, {1, 0}}}},
                                         {1, 2, 1, 2})) {
    EXPECT_EQ(run.output, (std::vector<double>{-2, 1, 3, 4})) << run.variant;
  }
}

}  // namespace
}  // namespace opforge
