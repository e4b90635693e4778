// y = x * min(max(x + 3, 0), 6) / 6, of "Searching for MobileNetV3" (Howard et al., 2019), section 5.2.
#include "operator/operator.hpp"

namespace opforge {

void hardswish_reference(ReferenceCall& call);

namespace {

// Every element is computed by itself, so that no tunable changes bits. Work items are pieces of 4096 elements where both
// tensors are contiguous (LAYOUT 2), else rows.
KernelDecl cpu_kernel() {
  KernelDecl kernel;
  kernel.id = "hardswish.cpu";
  kernel.description = "Highway vectors, f32 arithmetic";
  kernel.backend = "cpu";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = {
      {.name = "LAYOUT", .values = {0, 1, 2}, .initial = "2", .specialisation = true},
      {.name = "STREAM", .values = {0, 1}, .initial = "LAYOUT > 0 && M * N * T.itemsize >= 33554432"},
      {.name = "PREFETCH", .values = {0, 2048, 8192}, .initial = "STREAM ? 8192 : 0"}};
  kernel.constraints = {"LAYOUT > 0 || (STREAM == 0 && PREFETCH == 0)"};
  kernel.launch.guards = {
      {"LAYOUT < 1 || (x.stride1 == 1 && y.stride1 == 1)", "a last dim is not contiguous"},
      {"LAYOUT < 2 || (x.stride0 == N && y.stride0 == N)", "a tensor is not contiguous"}};
  LaunchStep step;
  step.entry = "hardswish";
  step.grid[0] = "LAYOUT == 2 ? ceil_div(M * N, 4096) : M";
  step.block[0] = "LAYOUT == 2 ? 8 : max(1, 32768 / max(N, 1))";
  step.bindings = {{.name = "x", .value = "x"},
                   {.name = "y", .value = "y"},
                   {.name = "rows", .type = ParamType::kI64, .value = "M"},
                   {.name = "columns", .type = ParamType::kI64, .value = "N"},
                   {.name = "x_row", .type = ParamType::kI64, .value = "x.stride0"},
                   {.name = "x_column", .type = ParamType::kI64, .value = "x.stride1"},
                   {.name = "y_row", .type = ParamType::kI64, .value = "y.stride0"},
                   {.name = "y_column", .type = ParamType::kI64, .value = "y.stride1"}};
  kernel.launch.steps = {step};
  return kernel;
}

}  // namespace

Operator opforge_operator_myteam_hardswish() {
  Operator op;
  op.signature.name = "myteam.hardswish";
  op.signature.tensors = {
      {.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
      {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite, .may_alias = {"x"}}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.backend_priority = {"cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "hard swish, element by element";
  op.formula = "y = x * min(max(x + 3, 0), 6) / 6";
  op.tolerances = {.fast = {.a = 0.75, .b = 2.5}, .high_precision = {.a = 0.75, .b = 2.5}};
  op.work = {.bytes_read = "M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "5 * M * N"};
  op.reference = hardswish_reference;
  op.reference_source = "reference.cc";
  op.kernels = {cpu_kernel()};
  const auto shape = [](const char* name, std::int64_t rows, std::int64_t columns, unsigned uses) {
    return Case{.name = name, .dims = {{"M", rows}, {"N", columns}}, .uses = uses};
  };
  constexpr unsigned kTest = unsigned(CaseUse::kTest), kBuild = unsigned(CaseUse::kBuild), kBench = unsigned(CaseUse::kBench);
  op.cases = {shape("3x5", 3, 5, kTest), shape("17x257", 17, 257, kTest), shape("32x4096", 32, 4096, kTest | kBuild | kBench)};
  op.data_contracts = {{"cpu", "any strides; contiguous tensors are one stream"}};
  return op;
}

}  // namespace opforge
