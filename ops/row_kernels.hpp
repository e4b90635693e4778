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

// ---- Triton: one program a row, in one block of lanes or in a loop over blocks

// LAYOUT 2: unit column strides, and everything a multiple of 16, so that accesses are vectors; 1:
// unit column strides; 0: any strides.
inline std::vector<Tunable> triton_row_tunables() {
  return {{"LAYOUT", {0, 1, 2}, "", false, true},
          {"BLOCK",
           {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
           "N <= 32768 ? next_pow2(N) : 8192",
           true,
           false},
          {"LOOP", {0, 1}, "N > BLOCK", true, false},
          {"NUM_WARPS", {1, 2, 4, 8, 16}, "BLOCK * T.itemsize / 1024", true, false}};
}
// The kernel's parameters are the tensors, then `scalars`, then the strides that
// triton_row_bindings() adds.
inline std::vector<std::string> triton_row_options(const RowTensors& tensors) {
  std::string divisible = "columns", ones;
  for (const std::string& t : tensors.matrices) {
    divisible += "," + t + "," + t + "_row_stride";
    ones += (ones.empty() ? "" : ",") + t + "_column_stride";
  }
  for (const std::string& t : tensors.vectors) {
    divisible += "," + t;
    ones += "," + t + "_stride";
  }
  return {"num_warps=NUM_WARPS", "enable_fp_fusion=1", "divisible_by_16(LAYOUT == 2)=" + divisible,
          "equal_to_1(LAYOUT >= 1)=" + ones};
}
inline std::vector<Binding> triton_row_bindings(const RowTensors& tensors,
                                                const std::vector<Binding>& scalars) {
  std::vector<Binding> all;
  for (const auto* list : {&tensors.matrices, &tensors.vectors}) {
    for (const std::string& t : *list) all.push_back(pointer(t));
  }
  all.push_back({.name = "columns", .type = ParamType::kI32, .value = "N", .tensor_map = {}});
  all.insert(all.end(), scalars.begin(), scalars.end());
  for (const std::string& t : tensors.matrices) add_strides(all, t);
  // An absent vector fits every layout.
  for (const std::string& t : tensors.vectors)
    all.push_back(i64(t + "_stride", t + ".present ? " + t + ".stride0 : 1"));
  return all;
}
inline KernelDecl triton_row_kernel(const std::string& op, const RowTensors& tensors,
                                    const std::vector<Binding>& scalars = {}) {
  KernelDecl kernel{.id = op + ".triton.row",
                    .description = "one program a row, in registers or in a loop over blocks",
                    .backend = "triton",
                    .tier = Tier::kHighPrecision};
  kernel.sources = {"triton.py"};
  kernel.tunables = triton_row_tunables();
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}, {DeviceKind::kHip, 0, 0}};
  kernel.options = triton_row_options(tensors);
  LaunchStep step{.entry = op};
  step.bindings = triton_row_bindings(tensors, scalars);
  step.grid[0] = "M";
  kernel.launch.steps = {step};
  kernel.launch.guards = {{"LOOP == 1 || N <= BLOCK", "the row does not fit into a block of lanes"},
                          {"M <= 2147483647", "more rows than a grid has blocks"},
                          {"N <= 2147483647 - BLOCK", "columns are counted in 32 bits"}};
  return kernel;
}

// TileLang: contiguous rows, a block a row. ALIGNED 1: a multiple of eight columns at 16-byte
// boundaries, so that accesses are vectors. The kernel adds its tile's tunables.
inline KernelDecl tilelang_row_kernel(const std::string& op, const RowTensors& tensors,
                                      const std::string& output) {
  KernelDecl kernel{.id = op + ".tilelang.row",
                    .description = "a block a row of contiguous rows",
                    .backend = "tilelang",
                    .tier = Tier::kHighPrecision};
  kernel.sources = {"tilelang.py"};
  kernel.tunables = {{"ALIGNED", {0, 1}, "", false, true}};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  std::string contiguous, aligned = "ALIGNED == 0 || (N % 8 == 0";
  for (const std::string& t : tensors.matrices) {
    contiguous += (contiguous.empty() ? "" : " && ") + t + ".stride1 == 1 && (M <= 1 || " + t +
                  ".stride0 == N)";
    aligned += " && " + t + ".align >= 16";
  }
  if (!output.empty()) contiguous += " && (M <= 1 || " + output + ".stride0 == 1)";
  kernel.launch.guards = {
      {contiguous, "a tensor is not contiguous"},
      {aligned + ")", "vector access needs a multiple of eight columns at 16-byte boundaries"},
      {"N > 0", "a row without columns has no tile"},
      {"M <= 2147483647 && N <= 2000000000", "rows and columns are counted in 32 bits"}};
  LaunchStep step{.entry = op};
  for (const std::string& t : tensors.matrices) step.bindings.push_back(pointer(t));
  if (!output.empty()) step.bindings.push_back(pointer(output));
  step.bindings.push_back(
      {.name = "rows", .type = ParamType::kI32, .value = "M", .tensor_map = {}});
  step.bindings.push_back(
      {.name = "columns", .type = ParamType::kI32, .value = "N", .tensor_map = {}});
  step.grid[0] = "M";
  step.block[0] = "THREADS";
  kernel.launch.steps = {step};
  return kernel;
}

// CuTe DSL: a block a row; columns are contiguous, rows start at 16-byte boundaries and are whole
// vectors. Parameters: `pointers`, columns,
// `scalars`, the row strides of the matrices.
inline KernelDecl cutedsl_row_kernel(const std::string& op,
                                     const std::vector<std::string>& pointers,
                                     const RowTensors& tensors,
                                     const std::vector<Binding>& scalars = {}) {
  KernelDecl kernel{.id = op + ".cutedsl.row",
                    .description = "a block a row, vectors of 16 bytes; sums in double",
                    .backend = "cutedsl",
                    .tier = Tier::kHighPrecision};
  kernel.sources = {"cutedsl.py"};
  kernel.tunables = {{"THREADS", {32, 64, 128, 256, 512}, "N * T.itemsize / 16", true, false}};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  std::string contiguous, rows_at_16 = "N * T.itemsize % 16 == 0";
  for (const std::string& t : tensors.matrices) {
    contiguous += (contiguous.empty() ? "" : " && ") + t + ".stride1 == 1";
    rows_at_16 += " && (M <= 1 || " + t + ".stride0 * T.itemsize % 16 == 0)";
  }
  for (const std::string& t : tensors.vectors) contiguous += " && " + t + ".stride0 == 1";
  kernel.launch.guards = {
      {contiguous, "columns are not contiguous"},
      {rows_at_16, "rows do not start and end at 16-byte boundaries"},
      {"N > 0", "a row without columns has no vector"},
      {"M <= 2147483647 && N <= 2000000000", "rows and columns are counted in 32 bits"}};
  LaunchStep step{.entry = op};
  for (const std::string& name : pointers) step.bindings.push_back(pointer(name));
  step.bindings.push_back(
      {.name = "columns", .type = ParamType::kI32, .value = "N", .tensor_map = {}});
  step.bindings.insert(step.bindings.end(), scalars.begin(), scalars.end());
  for (const std::string& t : tensors.matrices)
    step.bindings.push_back(i64(t + "_row_stride", t + ".stride0"));
  step.grid[0] = "M";
  step.block[0] = "THREADS";
  kernel.launch.steps = {step};
  return kernel;
}

// Why a row operator has CUDA kernels beside its Triton one.
inline LowLevelReason fixed_order_reason() {
  return {ReasonKind::kMissingPrimitive,
          "a reduction whose order stays the same whatever the tile and the number of warps",
          {}};
}
inline LowLevelReason triton_gap_reason(std::string gap) {
  return {ReasonKind::kPerformanceGap, std::move(gap),
          "bench/results/h200/2026-11-30-peers-torch.json"};
}

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

// ---- all kernels of an operator

// Parameters, in this order: `pointers`, rows (CUDA only), columns, `scalars`, the strides of the
// vectors, row and column strides of the matrices.
struct RowOperator {
  std::string entry;  // also the first part of the kernels' ids
  std::vector<std::string> pointers;
  std::vector<Binding> scalars;
  RowTensors tensors;
  int prefetch_bytes = 2048;
  std::string triton_gap;  // it has a Triton kernel too, which is slower by this much
};
inline std::vector<Binding> row_bindings(const RowOperator& op, bool with_rows) {
  std::vector<Binding> all;
  for (const std::string& name : op.pointers) all.push_back(pointer(name));
  if (with_rows) all.push_back(i64("rows", "M"));
  all.push_back(i64("columns", "N"));
  all.insert(all.end(), op.scalars.begin(), op.scalars.end());
  for (const std::string& name : op.tensors.vectors)
    all.push_back(i64(name + "_stride", name + ".stride0"));
  for (const std::string& name : op.tensors.matrices) add_strides(all, name);
  return all;
}
inline KernelDecl cuda_row_kernel(const RowOperator& op, Tier tier) {
  const bool fixed = tier == Tier::kDeterministic;
  KernelDecl kernel{
      .id = op.entry + (fixed ? ".cuda.fixed" : ".cuda.row"),
      .description = fixed ? "the same with a fixed number of threads a row; any strides and widths"
                           : "a group of threads a row, in registers",
      .backend = "cuda",
      .tier = tier};
  kernel.sources = {"cuda.cu"};
  kernel.tunables = cuda_row_tunables(tier);
  kernel.constraints = cuda_row_constraints();
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  LaunchStep step{.entry = op.entry};
  step.bindings = row_bindings(op, true);
  step.grid[0] = cuda_row_grid();
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = cuda_row_guards(op.tensors);
  return kernel;
}
inline KernelDecl cpu_row_kernel(const RowOperator& op) {
  KernelDecl kernel{.id = op.entry + ".cpu.row",
                    .description = "row by row; the next row is read while one is written",
                    .backend = "cpu",
                    .tier = Tier::kDeterministic};
  kernel.sources = {"cpu.cc"};
  kernel.tunables = cpu_row_tunables(op.prefetch_bytes);
  kernel.constraints = cpu_row_constraints();
  LaunchStep step{.entry = op.entry};
  step.bindings = row_bindings(op, false);
  step.grid[0] = "M";
  step.block[0] = cpu_row_grain();
  kernel.launch.steps = {step};
  kernel.launch.guards = cpu_row_guards(op.tensors);
  return kernel;
}
// A work-group a row; sums in double, so that one kernel is right at every tier. LAYOUT 1 reads
// eight columns at once, 0 takes any strides; the order of additions is the same.
inline KernelDecl opencl_row_kernel(const RowOperator& op, const RowTensors& layout) {
  KernelDecl kernel{.id = op.entry + ".opencl.row",
                    .description = "a work-group a row; sums in double",
                    .backend = "opencl",
                    .tier = Tier::kDeterministic};
  kernel.sources = {"opencl.cl"};
  kernel.tunables = {{"LAYOUT", {0, 1}, "", false, true}, {"BLOCK", {64}, "64", true, false}};
  LaunchStep step{.entry = op.entry};
  step.bindings = row_bindings(op, false);
  step.grid[0] = "M";
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = cpu_row_guards(layout);
  kernel.launch.guards.push_back({"M <= 2147483647", "more rows than a launch has work-groups"});
  return kernel;
}
// What row operators over "...M","N" share: kernels, tiers, priorities, one bound for all tiers.
inline void complete(Operator& op, const RowOperator& rows, Bound bound) {
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = bound, .high_precision = bound};
  op.reference_source = "reference.cc";
  op.kernels = {cuda_row_kernel(rows, Tier::kHighPrecision),
                cuda_row_kernel(rows, Tier::kDeterministic), cpu_row_kernel(rows)};
  if (!rows.triton_gap.empty()) {
    op.kernels[0].reason = triton_gap_reason(rows.triton_gap);
    op.kernels[1].reason = fixed_order_reason();
    op.kernels.push_back(triton_row_kernel(rows.entry, rows.tensors, rows.scalars));
  }
  op.data_contracts = {{"cuda",
                        "fastest where rows start at 16-byte boundaries and columns are "
                        "contiguous; any strides work"},
                       {"cpu", "fastest where columns are contiguous; any strides work"}};
}
// Data T with weights of T, or of f32.
inline std::vector<DTypeCombo> weighted_dtypes() {
  return {{{"T", DType::kF32}, {"W", DType::kF32}},
          {{"T", DType::kBF16}, {"W", DType::kBF16}},
          {{"T", DType::kBF16}, {"W", DType::kF32}},
          {{"T", DType::kF16}, {"W", DType::kF16}},
          {{"T", DType::kF16}, {"W", DType::kF32}}};
}
inline std::vector<DTypeCombo> plain_dtypes() {
  return {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
}

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

// Few shapes, for operators whose kernels are those of others: every class of width once, and code
// built ahead for one row and for many.
inline std::vector<Case> few_row_cases() {
  std::vector<Case> cases;
  for (const auto& [m, n] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {3, 2}, {7, 33}, {9, 1000}, {3, 8200}, {2, 65537}}) {
    cases.push_back(shape(m, n, kTestOnly));
  }
  cases.push_back(shape(1, 4096, kBuildAndBench));
  cases.push_back(shape(512, 4096, kBenchOnly));
  cases.push_back(shape(16384, 4096, kBuildAndBench));
  cases.push_back(shape(8192, 8192, kBenchOnly));
  cases.push_back(shape(65536, 1000, kBenchOnly));
  return cases;
}

}  // namespace opforge::rows
