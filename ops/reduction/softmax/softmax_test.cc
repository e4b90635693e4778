// What the generic suites cannot know of softmax: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();
const DType kAll[] = {DType::kF32, DType::kBF16, DType::kF16};

std::vector<TestRun> softmax(DType dtype, std::int64_t columns, std::vector<double> values,
                             std::int64_t pad = 0, std::int64_t offset = 0) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  return run_operator("reduction.softmax", {{"T", dtype}},
                      {{"x", {{rows, columns}, std::move(values), pad, offset}}}, {rows, columns});
}

TEST(Softmax, NanMakesItsRowNan) {
  for (const DType dtype : kAll) {
    for (const TestRun& run : softmax(dtype, 4, {1, kNan, 3, kInf, 0, 0, 0, 0})) {
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(run.output[i])) << run.variant;
      for (int i = 4; i < 8; ++i) EXPECT_EQ(run.output[i], 0.25) << run.variant;
    }
    for (const std::int64_t columns : {1000, 16385}) {
      std::vector<double> x(2 * columns, 0.5);
      x[777] = kNan;
      for (const TestRun& run : softmax(dtype, columns, x)) {
        for (int i = 0; i < columns; ++i)
          ASSERT_TRUE(std::isnan(run.output[i])) << run.variant << " at " << i;
        ASSERT_NEAR(run.output[columns], 1.0 / double(columns), 0.01 / double(columns))
            << run.variant;
      }
    }
  }
}

TEST(Softmax, MinusInfinityIsZero) {
  for (const DType dtype : kAll) {
    for (const TestRun& run : softmax(dtype, 4, {-kInf, 2, -kInf, 2, -kInf, -kInf, -kInf, -kInf})) {
      EXPECT_EQ(run.output[0], 0) << run.variant;
      EXPECT_EQ(run.output[1], 0.5) << run.variant;
      EXPECT_EQ(run.output[2], 0) << run.variant;
      for (int i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(run.output[i])) << run.variant;
    }
  }
}

// exp(-100) / (1 + exp(-100)) = 3.7200759760208e-44: a subnormal of f32 (27 of its steps, rounded).
TEST(Softmax, UnderflowIsGradual) {
  for (const TestRun& run : softmax(DType::kF32, 2, {0, -100})) {
    EXPECT_EQ(run.output[0], 1) << run.variant;
    EXPECT_NEAR(run.output[1], 3.7200759760208e-44, 2 * 0x1p-149) << run.variant;
  }
}

// Widths beyond what a block, a chunk or a lane holds: ln(k) at column k, so that the sum is n (n +
// 1) / 2.
TEST(Softmax, AnyWidth) {
  for (const std::int64_t columns : {1, 2, 3, 31, 33, 65535, 65537, 151936, 1048577}) {
    std::vector<double> x(columns);
    for (std::int64_t i = 0; i < columns; ++i) x[i] = float(std::log(double(i + 1)));
    double sum = 0;
    for (const double v : x) sum += std::exp(v);
    for (const TestRun& run : softmax(DType::kF32, columns, x)) {
      for (const std::int64_t i : {std::int64_t{0}, columns / 2, columns - 1}) {
        const double want = std::exp(x[i]) / sum;
        EXPECT_NEAR(run.output[i], want, 4e-6 * want)
            << run.variant << " " << columns << " at " << i;
      }
    }
  }
}

// Rows that start at an odd address, after the same shape ran aligned.
TEST(Softmax, MisalignedRows) {
  std::vector<double> x(64 * 1185);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = double(i % 7) - 3;
  const auto aligned = softmax(DType::kF16, 1185, x, 7), odd = softmax(DType::kF16, 1185, x, 0, 1);
  ASSERT_FALSE(aligned.empty());
  for (const TestRun& run : odd) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(run.output[i], aligned[0].output[i], 1e-3 * aligned[0].output[i] + 0x1p-24)
          << run.variant;
    }
  }
}

}  // namespace
}  // namespace opforge
