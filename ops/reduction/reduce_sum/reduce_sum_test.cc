// What the generic suites cannot know of reduce_sum: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

std::vector<TestRun> reduce_sum(DType dtype, std::int64_t rows, std::int64_t columns,
                                std::vector<double> values) {
  return run_operator("reduction.reduce_sum", {{"T", dtype}},
                      {{"x", {{rows, columns}, std::move(values)}}}, {rows});
}

// bf16 has no 1027: a partial sum kept in it would lose the 3.
TEST(ReduceSum, PartialSumsAreF32) {
  std::vector<double> x(8192);
  x[0] = 1024;
  x[1] = x[2] = x[3] = 1;
  x[4096] = -1024;
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const TestRun& run : reduce_sum(dtype, 1, 8192, x))
      EXPECT_EQ(run.output[0], 3) << run.variant;
  }
}

TEST(ReduceSum, EmptyRowsAreZero) {
  for (const TestRun& run : reduce_sum(DType::kF32, 3, 0, {})) {
    EXPECT_EQ(run.output, (std::vector<double>{0, 0, 0})) << run.variant;
  }
}

// Twice 2^127 and then less of it: the sum is a f32, the sum of the first two is not.
TEST(ReduceSum, PartialSumsOutsideF32) {
  for (const std::int64_t columns : {4, 5000, 40000}) {
    std::vector<double> x(columns);
    x[0] = x[1] = 0x1.8p127;
    x[columns - 1] = x[columns - 2] = -0x1.4p127;
    for (const TestRun& run : reduce_sum(DType::kF32, 1, columns, x))
      EXPECT_EQ(run.output[0], 0x1p126) << run.variant;
  }
}

// 1 + 2 + ... + 1000003 is no f32; its neighbours are 65536 apart.
TEST(ReduceSum, LongRows) {
  std::vector<double> x(1000003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = double(i + 1);
  const double sum = 1000003.0 * 1000004.0 / 2;
  for (const TestRun& run : reduce_sum(DType::kF32, 1, 1000003, x))
    EXPECT_NEAR(run.output[0], sum, 2e-6 * sum) << run.variant;
}

}  // namespace
}  // namespace opforge
