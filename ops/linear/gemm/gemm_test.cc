// What the generic suites cannot know of gemm: sums that are known, long ones, and transposed
// weights.
#include <gtest/gtest.h>

#include "ops/run_operator.hpp"

namespace opforge {
namespace {

// x[m,k] = m + 1, w[n,k] = (n + 1) / 4, K = 1000: y = 250 (m + 1) (n + 1) + n, exact in f32; bf16
// and f16 round once.
TEST(Gemm, KnownSums) {
  const std::int64_t m = 5, n = 7, k = 1000;
  std::vector<double> x(m * k), w(n * k), bias(n);
  for (std::int64_t i = 0; i < m * k; ++i) x[i] = double(i / k + 1);
  for (std::int64_t i = 0; i < n * k; ++i) w[i] = double(i / k + 1) / 4;
  for (std::int64_t i = 0; i < n; ++i) bias[i] = double(i);
  for (const auto& [dtype, relative] :
       {std::pair{DType::kF32, 0.0}, {DType::kBF16, 0x1p-8}, {DType::kF16, 0x1p-11}}) {
    for (const TestRun& run :
         run_operator("linear.gemm", {{"T", dtype}},
                      {{"x", {{m, k}, x}}, {"w", {{n, k}, w}}, {"bias", {{n}, bias}}}, {m, n})) {
      for (std::int64_t i = 0; i < m * n; ++i) {
        const double want = 250.0 * double(i / n + 1) * double(i % n + 1) + double(i % n);
        EXPECT_NEAR(run.output[i], want, relative * want) << run.variant << " at " << i;
      }
    }
  }
}

// 1 + 65535 x 2^-13: a running f32 sum of 2^-13's would still be right, a running bf16 or f16 sum
// stops growing early. 65536 terms of alternating +-1000 leave the small terms alone.
TEST(Gemm, LongSumsKeepSmallTerms) {
  const std::int64_t k = 65536;
  std::vector<double> x(k), w(k, 1.0);
  for (std::int64_t i = 0; i < k; ++i) x[i] = i % 2 == 0 ? 1024 : -1024 + 0x1p-3;
  // bf16 has 8 bits: -1024 + 1/8 is -1024 there, so f32 only.
  for (const TestRun& run : run_operator("linear.gemm", {{"T", DType::kF32}},
                                         {{"x", {{1, k}, x}}, {"w", {{1, k}, w}}}, {1, 1})) {
    EXPECT_NEAR(run.output[0], 4096, 1e-3 * 4096) << run.variant;
  }
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const TestRun& run : run_operator(
             "linear.gemm", {{"T", dtype}},
             {{"x", {{1, k}, std::vector<double>(k, 0x1p-6)}}, {"w", {{1, k}, w}}}, {1, 1})) {
      EXPECT_EQ(run.output[0], 1024) << run.variant;
    }
  }
}

// Identity weight: y = f(x); gelu(1) = 0.8413447461, silu(1) = 0.7310585786.
TEST(Gemm, Activations) {
  const std::pair<const char*, double> known[] = {
      {"none", 1}, {"gelu", 0.8413447461}, {"gelu_tanh", 0.8411919906}, {"silu", 0.7310585786}};
  for (const auto& [name, want] : known) {
    for (const TestRun& run :
         run_operator("linear.gemm", {{"T", DType::kF32}},
                      {{"x", {{1, 2}, {1, -1}}}, {"w", {{2, 2}, {1, 0, 0, 1}}}}, {1, 2},
                      {{"activation", name}})) {
      EXPECT_NEAR(run.output[0], want, 1e-6) << run.variant;
      EXPECT_NEAR(run.output[1], std::string(name) == "none" ? -1 : want - 1, 1e-6) << run.variant;
    }
  }
}

}  // namespace
}  // namespace opforge
