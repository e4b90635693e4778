#include "ops/elementwise/elementwise_tilelang.hpp"

namespace opforge {

void vector_add_reference(ReferenceCall& call);

namespace {

// LAYOUT 1: rows at multiples of 16 bytes.
KernelDecl cutile_kernel() {
  KernelDecl kernel;
  kernel.id = "vector_add.cutile";
  kernel.description = "a tile of a row a block";
  kernel.backend = "cutile";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cutile.py"};
  kernel.tunables = {{.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true},
                     {.name = "TILE", .values = {256, 512, 1024, 2048, 4096}, .initial = "1024"}};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  kernel.options = {"vectors(LAYOUT == 1)=a,b,y"};
  kernel.launch.guards = {{"M <= 2147483647 && ceil_div(N, TILE) <= 65535", "more rows or columns than a grid has blocks"}};
  LaunchStep step;
  step.entry = "vector_add";
  for (const char* name : {"a", "b", "y"}) step.bindings.push_back({.name = name, .type = ParamType::kPtr, .value = name});
  step.grid = {"M", "ceil_div(N, TILE)", ""};
  kernel.launch.steps = {step};
  return kernel;
}

// Why there is a CUDA kernel beside the one in cuTile.
KernelDecl cuda_kernel(const std::vector<std::string>& tensors) {
  KernelDecl kernel = elementwise::cuda_kernel("vector_add", tensors, {});
  kernel.reason = {ReasonKind::kMissingPrimitive, "code that drivers before 580 load: cuTile's does not exist for them", {}};
  return kernel;
}

}  // namespace

Operator opforge_operator_elementwise_vector_add() {
  const std::vector<std::string> tensors{"a", "b", "y"};
  Operator op;
  op.signature.name = "elementwise.vector_add";
  op.signature.tensors = {
      {.name = "a", .dims = {"...M", "N"}, .dtype = "T"},
      {.name = "b", .dims = {"...M", "N"}, .dtype = "T"},
      {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite, .may_alias = {"a", "b"}}};
  op.signature.dtypes = elementwise::float_dtypes();
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "add two tensors, element by element";
  op.formula = "y = a + b";
  op.tolerances = {.fast = {.a = 0.5, .b = 0.5}, .high_precision = {.a = 0.5, .b = 0.5}};
  op.work = {.bytes_read = "2 * M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "M * N"};
  op.reference = vector_add_reference;
  op.reference_source = "reference.cc";
  op.kernels = {elementwise::cpu_kernel("vector_add", tensors, {}), cuda_kernel(tensors), cutile_kernel(),
                elementwise::opencl_kernel("vector_add", tensors, {}), elementwise::tilelang_kernel("vector_add", tensors)};
  op.cases = elementwise::cases();
  op.data_contracts = {{"cpu", "any strides; contiguous tensors are one stream"},
                       {"cuda", "any strides; contiguous tensors aligned to 16 bytes use vectors"},
                       {"opencl", "any strides; contiguous tensors use vectors"}};
  return op;
}

}  // namespace opforge
