// What the declarations of row operators (x: "...M","N") have in common: tunables, constraints and
// guards of kernels over opforge_rows.cuh and opforge_rows.hpp.
#pragma once

#include <string>
#include <vector>

#include "operator/operator.hpp"

namespace opforge::rows {

inline Binding pointer(std::string name) {
  return {.name = name, .type = ParamType::kPtr, .value = name, .tensor_map = {}};
}
inline Binding i64(std::string name, std::string value) {
  return {.name = std::move(name),
          .type = ParamType::kI64,
          .value = std::move(value),
          .tensor_map = {}};
}
inline Binding f32(std::string name, std::string value) {
  return {.name = std::move(name),
          .type = ParamType::kF32,
          .value = std::move(value),
          .tensor_map = {}};
}
// <tensor>_row_stride, <tensor>_column_stride.
inline void add_strides(std::vector<Binding>& bindings, const std::string& tensor) {
  bindings.push_back(i64(tensor + "_row_stride", tensor + ".stride0"));
  bindings.push_back(i64(tensor + "_column_stride", tensor + ".stride1"));
}

// The tensors of a row kernel: matrices with rows of N columns, and vectors of N weights (may be
// absent).
struct RowTensors {
  std::vector<std::string> matrices, vectors;
};

// ---- CUDA

// LAYOUT 1 reads and writes 16 bytes at once; 0 takes any strides. Which of them is used changes no
// bits.
inline std::vector<Tunable> cuda_row_tunables(Tier tier) {
  const bool deterministic = tier == Tier::kDeterministic;
  std::vector<Tunable> tunables;
  if (deterministic) {
    tunables.push_back({"LAYOUT", {0, 1}, "", false, true});
    tunables.push_back({"THREADS", {32, 512}, "N * T.itemsize <= 4096 ? 32 : 512", true, false});
  } else {
    tunables.push_back({"LAYOUT", {1}, "1", false, false});
    tunables.push_back({"THREADS",
                        {8, 16, 32, 64, 128, 256, 512, 1024},
                        "N * T.itemsize <= 256 ? 16 : N * T.itemsize <= 4096 ? 32 : N * T.itemsize "
                        "<= 8192 ? 128 : "
                        "N * T.itemsize <= 16384 ? 256 : N * T.itemsize <= 32768 ? 512 : 1024",
                        true,
                        false});
  }
  // 16-byte vectors a thread; 0: as many rounds of eight as the row needs.
  tunables.push_back({"VECS",
                      deterministic ? std::vector<std::int64_t>{0, 1, 2, 4, 8}
                                    : std::vector<std::int64_t>{1, 2, 4, 8},
                      "LAYOUT == 0 || N * T.itemsize > 128 * THREADS ? 0 : "
                      "next_pow2(max(1, ceil_div(N * T.itemsize, 16 * THREADS)))",
                      false, false});
  tunables.push_back(
      {"BLOCK", {128, 256, 512, 1024}, "THREADS < 32 ? 256 : max(THREADS, 128)", false, false});
  return tunables;
}
inline std::vector<std::string> cuda_row_constraints() {
  return {"BLOCK >= THREADS", "BLOCK == THREADS || BLOCK <= 256", "LAYOUT == 1 || VECS == 0"};
}
inline std::vector<Guard> cuda_row_guards(const RowTensors& tensors) {
  std::string contiguous = "LAYOUT == 0", aligned = "LAYOUT == 0 || (N * T.itemsize % 16 == 0";
  std::string columns;
  for (const std::string& t : tensors.matrices) {
    columns += (columns.empty() ? "" : " && ") + t + ".stride1 == 1";
    aligned +=
        " && " + t + ".align >= 16 && (M <= 1 || " + t + ".stride0 * " + t + ".itemsize % 16 == 0)";
  }
  for (const std::string& t : tensors.vectors) {
    columns += " && (!" + t + ".present || " + t + ".stride0 == 1)";
    aligned += " && " + t + ".align >= 16";
  }
  return {{"VECS == 0 || N * T.itemsize <= 16 * THREADS * VECS",
           "the row does not fit into the threads' registers"},
          {contiguous + " || (" + columns + ")", "vector access needs contiguous columns"},
          {aligned + ")", "vector access needs rows that start and end at 16-byte boundaries"},
          {"ceil_div(M, BLOCK / THREADS) <= 2147483647", "more rows than a grid has blocks"}};
}
inline std::string cuda_row_grid() { return "ceil_div(M, BLOCK / THREADS)"; }

// ---- CPU: every tunable leaves the bits alone

inline std::vector<Tunable> cpu_row_tunables(int prefetch_bytes) {
  const std::string large = "LAYOUT == 1 && 2 * M * N * T.itemsize > 8388608 ? ";
  return {{"LAYOUT", {0, 1}, "", false, true},
          {"STREAM", {0, 1}, large + "1 : 0", false, false},
          {"PREFETCH",
           {0, 512, 1024, 2048, 4096},
           large + std::to_string(prefetch_bytes) + " : 0",
           false,
           false},
          {"PIPELINE", {0, 1}, large + "1 : 0", false, false}};
}
inline std::vector<std::string> cpu_row_constraints() {
  return {"LAYOUT == 1 || (STREAM == 0 && PREFETCH == 0 && PIPELINE == 0)"};
}
inline std::vector<Guard> cpu_row_guards(const RowTensors& tensors) {
  std::string columns;
  for (const std::string& t : tensors.matrices)
    columns += (columns.empty() ? "" : " && ") + t + ".stride1 == 1";
  for (const std::string& t : tensors.vectors)
    columns += " && (!" + t + ".present || " + t + ".stride0 == 1)";
  return {{"LAYOUT == 0 || (" + columns + ")", "vector access needs contiguous columns"}};
}
// Least rows given to one call: about 64 KiB.
inline std::string cpu_row_grain() { return "max(1, 65536 / max(1, N * T.itemsize))"; }

// ---- shapes

inline constexpr unsigned kTestOnly = static_cast<unsigned>(CaseUse::kTest);
inline constexpr unsigned kBenchOnly = static_cast<unsigned>(CaseUse::kBench);
inline constexpr unsigned kBuildAndBench = static_cast<unsigned>(CaseUse::kBuild) | kBenchOnly;

inline Case shape(std::int64_t m, std::int64_t n, unsigned uses) {
  return {std::to_string(m) + "x" + std::to_string(n), {{"M", m}, {"N", n}}, {}, uses};
}
// Small shapes for tests, round and odd, and the shapes of language models for benchmarks. Ahead of
// time: one row, many rows, and rows that fit nowhere, which together leave no width without code.
inline std::vector<Case> row_cases() {
  std::vector<Case> cases;
  for (const auto& [m, n] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{1, 1},
                                                                    {3, 2},
                                                                    {5, 3},
                                                                    {4, 31},
                                                                    {7, 33},
                                                                    {33, 128},
                                                                    {9, 1000},
                                                                    {5, 4096},
                                                                    {3, 8200},
                                                                    {2, 65537},
                                                                    {260, 8200}}) {
    cases.push_back(shape(m, n, kTestOnly));
  }
  cases.push_back(shape(1, 4096, kBuildAndBench));
  cases.push_back(shape(32, 4096, kBenchOnly));
  cases.push_back(shape(512, 4096, kBenchOnly));
  cases.push_back(shape(16384, 4096, kBuildAndBench));
  cases.push_back(shape(8192, 8192, kBuildAndBench));
  cases.push_back(shape(4096, 32768, kBenchOnly));
  cases.push_back(shape(2048, 151936, kBuildAndBench));
  cases.push_back(shape(65536, 1000, kBenchOnly));
  cases.push_back(shape(131072, 128, kBenchOnly));
  return cases;
}

}  // namespace opforge::rows
