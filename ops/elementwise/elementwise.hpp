// What the declarations of elementwise operators share: arguments by strides, layouts as specialisations, tunables, cases.
#pragma once

#include <string>
#include <vector>

#include "operator/operator.hpp"

namespace opforge::elementwise {

inline std::vector<DTypeCombo> float_dtypes() {
  return {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
}

// Pointers of all tensors, rows, columns, then row and column stride (elements) of each tensor, then `extra`.
inline std::vector<Binding> bindings(const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  std::vector<Binding> all;
  for (const std::string& name : tensors) all.push_back({.name = name, .type = ParamType::kPtr, .value = name});
  all.push_back({.name = "rows", .type = ParamType::kI64, .value = "M"});
  all.push_back({.name = "columns", .type = ParamType::kI64, .value = "N"});
  for (const std::string& name : tensors) {
    all.push_back({.name = name + "_row", .type = ParamType::kI64, .value = name + ".stride0"});
    all.push_back({.name = name + "_column", .type = ParamType::kI64, .value = name + ".stride1"});
  }
  all.insert(all.end(), extra.begin(), extra.end());
  return all;
}

// "x.stride1 == 1 && y.stride1 == 1" and the like, over all tensors.
inline std::string all_of(const std::vector<std::string>& tensors, const std::string& before, const std::string& after) {
  std::string text;
  for (const std::string& name : tensors) text += (text.empty() ? "" : " && ") + before + name + after;
  return text;
}

// Every element is computed by itself, so no tunable changes bits and the kernel is DETERMINISTIC as it stands.
// LAYOUT 2: contiguous, work items are pieces of 4096 elements; 1: unit column stride; 0: any strides; items are rows.
inline KernelDecl cpu_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel;
  kernel.id = op + ".cpu";
  kernel.description = "Highway vectors; contiguous tensors as one stream with non-temporal stores, others row by row";
  kernel.backend = "cpu";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = {
      {.name = "LAYOUT", .values = {0, 1, 2}, .initial = "2", .specialisation = true},
      {.name = "STREAM", .values = {0, 1}, .initial = "LAYOUT > 0 && M * N * T.itemsize >= 33554432"},
      {.name = "PREFETCH", .values = {0, 2048, 8192}, .initial = "LAYOUT > 0 && M * N * T.itemsize >= 33554432 ? 8192 : 0"}};
  kernel.constraints = {"LAYOUT > 0 || (STREAM == 0 && PREFETCH == 0)"};
  kernel.launch.guards = {
      {"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + ")", "a last dim is not contiguous"},
      {"LAYOUT < 2 || (" + all_of(tensors, "", ".stride0 == N") + ")", "a tensor is not contiguous"}};
  LaunchStep step;
  step.entry = op;
  step.bindings = bindings(tensors, extra);
  step.grid[0] = "LAYOUT == 2 ? ceil_div(M * N, 4096) : M";
  step.block[0] = "LAYOUT == 2 ? 8 : max(1, 32768 / max(N, 1))";
  kernel.launch.steps = {step};
  return kernel;
}

// LAYOUT 1: contiguous and aligned to 16 bytes, VECTORS vectors a thread; 0: any strides, an element a thread.
inline KernelDecl cuda_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel;
  kernel.id = op + ".cuda";
  kernel.description = "16-byte vectors over contiguous aligned tensors, an element a thread elsewhere";
  kernel.backend = "cuda";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cuda.cu"};
  kernel.tunables = {
      {.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true},
      {.name = "BLOCK", .values = {64, 128, 256, 512, 1024}, .initial = "LAYOUT == 0 ? 256 : M * N * T.itemsize >= 33554432 ? 1024 : 256"},
      {.name = "VECTORS", .values = {1, 2, 4}, .initial = "1"}};
  kernel.constraints = {"LAYOUT == 1 || (VECTORS == 1 && BLOCK == 256)"};
  kernel.launch.guards = {
      {"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + " && " + all_of(tensors, "", ".stride0 == N") + ")",
       "a tensor is not contiguous"},
      {"LAYOUT < 1 || (" + all_of(tensors, "", ".align >= 16") + ")", "a tensor is not aligned to 16 bytes"}};
  LaunchStep step;
  step.entry = op;
  step.bindings = bindings(tensors, extra);
  step.grid[0] = "LAYOUT == 1 ? ceil_div(M * N, BLOCK * VECTORS * (16 / T.itemsize)) : ceil_div(M * N, BLOCK)";
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  return kernel;
}

// For operators whose tensors have rows of different lengths ("2*N" and "N"): rows are the pieces of work, and a contiguous
// tensor is nothing special.
inline KernelDecl cpu_rows_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel = cpu_kernel(op, tensors, extra);
  kernel.description = "Highway vectors row by row, with non-temporal stores where the output is large";
  kernel.tunables[0] = {.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true};
  kernel.launch.guards.pop_back();
  LaunchStep& step = kernel.launch.steps.front();
  step.grid[0] = "M";
  step.block[0] = "max(1, 32768 / max(N, 1))";
  return kernel;
}

// LAYOUT 2: rows that start and end at 16-byte boundaries.
inline KernelDecl cuda_rows_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel = cuda_kernel(op, tensors, extra);
  kernel.description = "16-byte vectors in aligned rows, an element a thread elsewhere";
  kernel.tunables[0] = {.name = "LAYOUT", .values = {0, 2}, .initial = "2", .specialisation = true};
  kernel.constraints = {"LAYOUT == 2 || (VECTORS == 1 && BLOCK == 256)"};
  std::string aligned = "N * T.itemsize % 16 == 0";
  for (const std::string& name : tensors)
    aligned += " && " + name + ".align >= 16 && (M <= 1 || " + name + ".stride0 * T.itemsize % 16 == 0)";
  kernel.launch.guards = {{"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + ")", "a last dim is not contiguous"},
                          {"LAYOUT < 1 || (" + aligned + ")", "rows do not start and end at 16-byte boundaries"}};
  kernel.launch.steps.front().grid[0] =
      "LAYOUT == 2 ? ceil_div(M * N, BLOCK * VECTORS * (16 / T.itemsize)) : ceil_div(M * N, BLOCK)";
  return kernel;
}

// A work-item has eight elements. LAYOUT 1: contiguous; 0: any strides. `extra` follows the strides.
inline KernelDecl opencl_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel;
  kernel.id = op + ".opencl";
  kernel.description = "vectors of eight over contiguous tensors, eight elements a work-item elsewhere";
  kernel.backend = "opencl";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"opencl.cl"};
  kernel.tunables = {
      {.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true},
      {.name = "BLOCK", .values = {64, 256, 1024}, .initial = "256"}};
  kernel.constraints = {"LAYOUT > 0 || BLOCK == 256"};
  kernel.launch.guards = {
      {"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + " && " + all_of(tensors, "", ".stride0 == N") + ")",
       "a tensor is not contiguous"},
      {"ceil_div(M * N, BLOCK * 8) <= 2147483647", "more elements than a launch has work-groups for"}};
  LaunchStep step;
  step.entry = op;
  step.bindings = bindings(tensors, extra);
  step.grid[0] = "ceil_div(M * N, BLOCK * 8)";
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  return kernel;
}

// For rows of different lengths. LAYOUT 2: contiguous columns, in rows of whole vectors.
inline KernelDecl opencl_rows_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel = opencl_kernel(op, tensors, extra);
  kernel.description = "vectors of eight in rows, eight elements a work-item elsewhere";
  kernel.tunables[0] = {.name = "LAYOUT", .values = {0, 2}, .initial = "2", .specialisation = true};
  kernel.launch.guards.front() = {"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + " && N % 8 == 0)",
                                  "a last dim is not contiguous, or no multiple of 8"};
  return kernel;
}

// Every element by itself in one kernel of each backend: DETERMINISTIC is the only tier, and may be asked for as any.
inline void complete(Operator& op, std::vector<KernelDecl> kernels, Bound bound) {
  op.signature.dtypes = float_dtypes();
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.tolerances = {.fast = bound, .high_precision = bound};
  op.reference_source = "reference.cc";
  op.kernels = std::move(kernels);
  op.data_contracts = {{"cpu", "any strides; contiguous tensors or rows use vectors"},
                       {"cuda", "any strides; tensors or rows aligned to 16 bytes use vectors"},
                       {"opencl", "any strides; contiguous tensors, or rows of a multiple of 8, use vectors"}};
}

// `large_built`: code for streams that no cache holds is built ahead too (twice the variants, most of a suite's time).
inline std::vector<Case> cases(bool large_built = true) {
  const auto make = [](const char* name, std::int64_t rows, std::int64_t columns, unsigned uses) {
    return Case{.name = name, .dims = {{"M", rows}, {"N", columns}}, .uses = uses};
  };
  constexpr unsigned kTest = unsigned(CaseUse::kTest), kBuild = unsigned(CaseUse::kBuild), kBench = unsigned(CaseUse::kBench);
  return {make("3x5", 3, 5, kTest),
          make("17x257", 17, 257, kTest),
          make("32x4096", 32, 4096, kTest | kBuild | kBench),
          make("512x1024", 512, 1024, kTest | kBench),
          make("2048x4096", 2048, 4096, kBench),
          make("16384x4096", 16384, 4096, large_built ? kBuild | kBench : kBench)};
}

}  // namespace opforge::elementwise
