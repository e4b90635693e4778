// What the declarations of the norms' gradients share (kernels: opforge_norm_backward).
//
// Three steps: rows (dx, and each row's numbers into the workspace); partial sums of the weight
// gradients over slabs of rows, in double; sums of the slabs. How rows are cut into slabs follows
// from M alone, so the order of every sum does.
#pragma once

#include <string>
#include <vector>

#include "operator/operator.hpp"

namespace opforge::norm {

struct Gradient {
  bool layer = false;          // a mean is taken off, and there is a bias
  std::string x = "x";         // what was normalised
  std::string added;           // added to dx; empty: nothing
  bool zero_centered = false;  // has that attribute
};

inline std::string slab_rows() { return "max(16, ceil_div(M, 64))"; }
inline std::string slabs() { return "ceil_div(M, " + slab_rows() + ")"; }

class GradientKernel {
 public:
  GradientKernel(const Gradient& gradient, std::string backend)
      : gradient_(gradient), cpu_(backend == "cpu") {
    kernel_.id = "backward." + backend;
    kernel_.description = "dx row by row; weight gradients in two steps over fixed slabs of rows";
    kernel_.backend = std::move(backend);
    kernel_.tier = Tier::kDeterministic;
    kernel_.sources = {cpu_ ? "cpu.cc" : "cuda.cu"};
    kernel_.tunables = {{.name = "LAYER", .values = {gradient.layer ? 1 : 0}}};
  }

  KernelDecl make() {
    rows();
    partials();
    sums();
    kernel_.launch.workspace_bytes =
        "round_up(24 * M, 256) + " + slabs() + " * N * 8 * (1 + LAYER)";
    if (cpu_) kernel_.launch.workspace_align = 64;  // what host memory is aligned to
    return kernel_;
  }

 private:
  void begin(const char* entry, const std::string& grid, const std::string& block) {
    kernel_.launch.steps.push_back({.entry = entry});
    step().grid[0] = grid;
    step().block[0] = block;
  }
  LaunchStep& step() { return kernel_.launch.steps.back(); }
  void add(const std::string& name, ParamType type, const std::string& value) {
    step().bindings.push_back({.name = name, .type = type, .value = value});
  }
  void strides(const std::string& name, const std::string& tensor) {
    add(name + "_row", ParamType::kI64, tensor.empty() ? "0" : tensor + ".stride0");
    add(name + "_column", ParamType::kI64, tensor.empty() ? "0" : tensor + ".stride1");
  }

  void rows() {
    begin("norm_backward_rows", "M", cpu_ ? "max(1, 16384 / max(1, N))" : "256");
    add("dy", ParamType::kPtr, "dy");
    add("x", ParamType::kPtr, gradient_.x);
    add("w", ParamType::kPtr, "w");
    add("added", ParamType::kPtr, gradient_.added.empty() ? "null" : gradient_.added);
    add("dx", ParamType::kPtr, "dx");
    add("numbers", ParamType::kPtr, "workspace");
    add("columns", ParamType::kI64, "N");
    add("eps", ParamType::kF32, "eps");
    add("shift", ParamType::kF32, gradient_.zero_centered ? "float(zero_centered)" : "0.0");
    add("w_stride", ParamType::kI64, "w.stride0");
    strides("dy", "dy"), strides("x", gradient_.x), strides("added", gradient_.added);
    strides("dx", "dx");
  }
  void partials() {
    begin("norm_backward_partials", cpu_ ? slabs() : slabs() + " * ceil_div(N, 32)",
          cpu_ ? "1" : "256");
    add("dy", ParamType::kPtr, "dy");
    add("x", ParamType::kPtr, gradient_.x);
    add("numbers", ParamType::kPtr, "workspace");
    add("partials", ParamType::kPtr, "workspace + round_up(24 * M, 256)");
    add("rows", ParamType::kI64, "M");
    add("columns", ParamType::kI64, "N");
    add("slab_rows", ParamType::kI64, slab_rows());
    strides("dy", "dy"), strides("x", gradient_.x);
  }
  void sums() {
    begin("norm_backward_sums", cpu_ ? "N" : "ceil_div(N, 256)", "256");
    add("partials", ParamType::kPtr, "workspace + round_up(24 * M, 256)");
    add("dw", ParamType::kPtr, "dw");
    add("db", ParamType::kPtr, gradient_.layer ? "db" : "null");
    add("columns", ParamType::kI64, "N");
    add("slabs", ParamType::kI64, slabs());
    add("dw_stride", ParamType::kI64, "dw.stride0");
    add("db_stride", ParamType::kI64, gradient_.layer ? "db.stride0" : "0");
  }

  const Gradient& gradient_;
  bool cpu_;
  KernelDecl kernel_;
};

// Tensors, kernels, bound and cases.
inline void complete(Operator& op, const Gradient& gradient, double eps) {
  op.signature.tensors = {{.name = "dy", .dims = {"...M", "N"}, .dtype = "T"}};
  if (!gradient.added.empty())
    op.signature.tensors.push_back({.name = gradient.added, .dims = {"...M", "N"}, .dtype = "T"});
  op.signature.tensors.push_back({.name = gradient.x, .dims = {"...M", "N"}, .dtype = "T"});
  op.signature.tensors.push_back({.name = "w", .dims = {"N"}, .dtype = "W"});
  op.signature.tensors.push_back(
      {.name = "dx", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite});
  op.signature.tensors.push_back(
      {.name = "dw", .dims = {"N"}, .dtype = "W", .access = Access::kWrite});
  if (gradient.layer)
    op.signature.tensors.push_back(
        {.name = "db", .dims = {"N"}, .dtype = "W", .access = Access::kWrite});
  op.signature.attributes = {
      {.name = "eps", .type = AttrType::kFloat, .default_value = Value{eps}, .min = 0.0}};
  if (gradient.zero_centered)
    op.signature.attributes.push_back({.name = "zero_centered",
                                       .type = AttrType::kBool,
                                       .default_value = Value{std::int64_t{0}}});
  op.signature.dtypes = {{{"T", DType::kF32}, {"W", DType::kF32}},
                         {{"T", DType::kBF16}, {"W", DType::kBF16}},
                         {{"T", DType::kBF16}, {"W", DType::kF32}},
                         {{"T", DType::kF16}, {"W", DType::kF16}}};
  // dw sums over rows, dx over columns.
  op.signature.reduced_dims = {"M", "N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.tolerances = {.fast = {.a = 0.5, .b = 64}, .high_precision = {.a = 0.5, .b = 64}};
  op.work = {"2 * M * N * T.itemsize", "M * N * T.itemsize", "12 * M * N"};
  op.reference_source = "reference.cc";
  op.kernels = {GradientKernel(gradient, "cuda").make(), GradientKernel(gradient, "cpu").make()};
  constexpr auto kTest = unsigned(CaseUse::kTest), kBench = unsigned(CaseUse::kBench),
                 kBuild = unsigned(CaseUse::kBuild);
  const auto one = [](const char* name, std::int64_t m, std::int64_t n, unsigned uses) {
    return Case{name, {{"M", m}, {"N", n}}, {}, uses};
  };
  op.cases = {one("5x33", 5, 33, kTest), one("1100x70", 1100, 70, kTest),
              one("40x4100", 40, 4100, kTest), one("4096x4096", 4096, 4096, kBuild | kBench)};
  op.data_contracts = {{"cuda", "any strides"}, {"cpu", "fastest where columns are contiguous"}};
}

}  // namespace opforge::norm
