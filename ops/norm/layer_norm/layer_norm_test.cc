// What the generic suites cannot know of layer_norm: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

std::vector<TestRun> layer_norm(DType dtype, std::int64_t columns, std::vector<double> values,
                                double eps, const double* bias = nullptr) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  std::map<std::string, TestTensor> inputs{{"x", {{rows, columns}, std::move(values)}},
                                           {"w", {{columns}, std::vector<double>(columns, 2)}}};
  if (bias != nullptr) inputs["b"] = {{columns}, std::vector<double>(columns, *bias)};
  return run_operator("norm.layer_norm", {{"T", dtype}, {"W", dtype}}, inputs, {rows, columns},
                      {{"eps", eps}});
}

// 100 + i / 1000 for i < 16 has variance (16^2 - 1) / 12 / 1e6; E[x^2] - E[x]^2 in f32 loses all of
// it.
TEST(LayerNorm, LargeMeanDoesNotCancel) {
  std::vector<double> x(16);
  double mean = 0, variance = 0;
  for (int i = 0; i < 16; ++i) mean += (x[i] = float(100 + i / 1000.0)) / 16;
  for (int i = 0; i < 16; ++i) variance += (x[i] - mean) * (x[i] - mean) / 16;
  EXPECT_NEAR(variance, 255.0 / 12 / 1e6, 1e-7);
  for (const TestRun& run : layer_norm(DType::kF32, 16, x, 1e-5)) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_NEAR(run.output[i], 2 * (x[i] - mean) / std::sqrt(variance + 1e-5), 1e-2)
          << run.variant;
    }
  }
}

// c and 3c in turn: mean 2c, deviation c. Sums and squares leave f32's range.
TEST(LayerNorm, SumsOutsideF32) {
  for (const double c : {0x1p100, 0x1p126, 0x1p-100}) {
    for (const std::int64_t columns : {6, 1000, 20000}) {
      std::vector<double> x(columns);
      for (std::int64_t i = 0; i < columns; ++i) x[i] = i % 2 == 0 ? c : 3 * c;
      for (const TestRun& run : layer_norm(DType::kF32, columns, x, 0)) {
        for (std::int64_t i = 0; i < columns; ++i) {
          ASSERT_NEAR(run.output[i], i % 2 == 0 ? -2 : 2, 1e-5) << run.variant << " " << c;
        }
      }
    }
  }
}

TEST(LayerNorm, BiasIsOptional) {
  const double bias = 10;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const TestRun& run : layer_norm(dtype, 2, {1, 3, -5, 5}, 0)) {
      EXPECT_EQ(run.output, (std::vector<double>{-2, 2, -2, 2})) << run.variant;
    }
    for (const TestRun& run : layer_norm(dtype, 2, {1, 3, -5, 5}, 0, &bias)) {
      EXPECT_EQ(run.output, (std::vector<double>{8, 12, 8, 12})) << run.variant;
    }
  }
}

}  // namespace
}  // namespace opforge
