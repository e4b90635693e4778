#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/elementwise_triton.hpp"

namespace opforge {

void scale_reference(ReferenceCall& call);

namespace {

// Contiguous tensors as one stream of 16-byte vectors, one a thread.
KernelDecl cutedsl_kernel(const std::vector<std::string>& tensors) {
  KernelDecl kernel;
  kernel.id = "scale.cutedsl";
  kernel.description = "a 16-byte vector a thread of contiguous tensors";
  kernel.backend = "cutedsl";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"cutedsl.py"};
  kernel.tunables = {{.name = "THREADS", .values = {128, 256, 512, 1024}, .initial = "256"}};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  kernel.launch.guards = {
      {elementwise::all_of(tensors, "", ".stride1 == 1") + " && " + elementwise::all_of(tensors, "", ".stride0 == N"),
       "a tensor is not contiguous"},
      {"ceil_div(M * N, THREADS * 4) <= 2147483647", "more blocks than a grid has"}};
  LaunchStep step;
  step.entry = "scale";
  for (const std::string& name : tensors) step.bindings.push_back({.name = name, .type = ParamType::kPtr, .value = name});
  step.bindings.push_back({.name = "elements", .type = ParamType::kI64, .value = "M * N"});
  step.bindings.push_back({.name = "alpha", .type = ParamType::kF32, .value = "alpha"});
  step.grid[0] = "ceil_div(M * N, THREADS * (16 / T.itemsize))";
  step.block[0] = "THREADS";
  kernel.launch.steps = {step};
  return kernel;
}

}  // namespace

Operator opforge_operator_elementwise_scale() {
  const std::vector<std::string> tensors{"x", "y"};
  const std::vector<Binding> extra{{.name = "alpha", .type = ParamType::kF32, .value = "alpha"}};
  Operator op;
  op.signature.name = "elementwise.scale";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite, .may_alias = {"x"}}};
  op.signature.attributes = {{.name = "alpha", .type = AttrType::kFloat, .default_value = 1.0}};
  op.signature.dtypes = elementwise::float_dtypes();
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "multiply every element by a number";
  op.formula = "y = alpha * x";
  op.tolerances = {.fast = {.a = 0.5, .b = 1.0}, .high_precision = {.a = 0.5, .b = 1.0}};
  op.work = {.bytes_read = "M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "M * N"};
  op.reference = scale_reference;
  op.reference_source = "reference.cc";
  op.kernels = {elementwise::cpu_kernel("scale", tensors, extra), elementwise::beside_triton(elementwise::cuda_kernel("scale", tensors, extra)),
                elementwise::opencl_kernel("scale", tensors, extra), elementwise::triton_kernel("scale", tensors, extra), cutedsl_kernel(tensors)};
  op.cases = elementwise::cases();
  for (Case& each : op.cases) each.attributes["alpha"] = 0.75;
  op.data_contracts = {{"cpu", "any strides; contiguous tensors are one stream"},
                       {"cuda", "any strides; contiguous tensors aligned to 16 bytes use vectors"},
                       {"opencl", "any strides; contiguous tensors use vectors"}};
  return op;
}

}  // namespace opforge
