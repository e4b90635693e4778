#include "operator/operator.hpp"

namespace opforge {

void warp_reduce_sum_reference(ReferenceCall& call);

namespace {

std::vector<Binding> bindings(bool with_rows) {
  std::vector<Binding> all{{.name = "x", .type = ParamType::kPtr, .value = "x"},
                           {.name = "y", .type = ParamType::kPtr, .value = "y"}};
  if (with_rows) all.push_back({.name = "rows", .type = ParamType::kI64, .value = "M"});
  all.push_back({.name = "columns", .type = ParamType::kI64, .value = "N"});
  for (const char* name : {"x", "y"}) {
    all.push_back({.name = std::string(name) + "_row", .type = ParamType::kI64, .value = std::string(name) + ".stride0"});
    all.push_back({.name = std::string(name) + "_column", .type = ParamType::kI64, .value = std::string(name) + ".stride1"});
  }
  return all;
}

KernelDecl cpu_kernel() {
  KernelDecl kernel;
  kernel.id = "warp_reduce_sum.cpu";
  kernel.description = "the butterfly's order in plain loops; the same bits on every instruction set";
  kernel.backend = "cpu";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = {{.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true}};
  kernel.launch.guards = {{"LAYOUT < 1 || x.stride1 == 1", "the last dim of x is not contiguous"}};
  LaunchStep step;
  step.entry = "warp_reduce_sum";
  step.bindings = bindings(false);
  step.grid[0] = "M * ceil_div(N, 32)";
  step.block[0] = "512";
  kernel.launch.steps = {step};
  return kernel;
}

KernelDecl cuda_kernel() {
  KernelDecl kernel;
  kernel.id = "warp_reduce_sum.cuda";
  kernel.description = "one group of 32 a warp at a time, by shuffles";
  kernel.backend = "cuda";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cuda.cu"};
  kernel.tunables = {{.name = "BLOCK", .values = {128, 256, 512}, .initial = "256"},
                     {.name = "GROUPS", .values = {1, 2, 4, 8}, .initial = "M * ceil_div(N, 32) >= 65536 ? 8 : 1"}};
  kernel.reason = {.kind = ReasonKind::kMissingPrimitive,
                   .text = "the butterfly over the 32 lanes of a warp is the operator's definition; tile languages have reductions "
                           "but no lane exchange whose order a program can fix"};
  LaunchStep step;
  step.entry = "warp_reduce_sum";
  step.bindings = bindings(true);
  step.grid[0] = "ceil_div(M * ceil_div(N, 32), GROUPS * (BLOCK / 32))";
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  return kernel;
}

}  // namespace

Operator opforge_operator_reduction_warp_reduce_sum() {
  Operator op;
  op.signature.name = "reduction.warp_reduce_sum";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y", .dims = {"...M", "ceil_div(N,32)"}, .dtype = "T", .access = Access::kWrite}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "sum every 32 neighbours of a row, in the fixed order of a warp's butterfly";
  op.formula = "y[m, g] = sum over i < 32 of x[m, 32 g + i], lane i adding lane i + 16, then + 8, 4, 2, 1";
  op.tolerances = {.fast = {.a = 0.5, .b = 2.5}, .high_precision = {.a = 0.5, .b = 2.5}};
  op.work = {.bytes_read = "M * N * T.itemsize", .bytes_written = "M * ceil_div(N, 32) * T.itemsize", .flops = "M * N"};
  op.reference = warp_reduce_sum_reference;
  op.reference_source = "reference.cc";
  op.kernels = {cpu_kernel(), cuda_kernel()};
  const auto make = [](const char* name, std::int64_t rows, std::int64_t columns, unsigned uses) {
    return Case{.name = name, .dims = {{"M", rows}, {"N", columns}}, .uses = uses};
  };
  constexpr unsigned kTest = unsigned(CaseUse::kTest), kBuild = unsigned(CaseUse::kBuild), kBench = unsigned(CaseUse::kBench);
  op.cases = {make("3x31", 3, 31, kTest), make("5x33", 5, 33, kTest), make("32x4096", 32, 4096, kTest | kBuild | kBench),
              make("7x1000", 7, 1000, kTest), make("16384x4096", 16384, 4096, kBuild | kBench)};
  op.data_contracts = {{"cpu", "any strides"}, {"cuda", "any strides; unit column stride coalesces"}};
  return op;
}

}  // namespace opforge
