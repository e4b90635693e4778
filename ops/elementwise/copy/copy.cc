#include "ops/elementwise/elementwise_tilelang.hpp"

namespace opforge {

void copy_reference(ReferenceCall& call);

Operator opforge_operator_elementwise_copy() {
  const std::vector<std::string> tensors{"x", "y"};
  Operator op;
  op.signature.name = "elementwise.copy";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite, .may_alias = {"x"}}};
  op.signature.dtypes = elementwise::float_dtypes();
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "copy a tensor, also between different strides";
  op.formula = "y = x, bit by bit";
  op.tolerances = {.fast = {.a = 0, .b = 0}, .high_precision = {.a = 0, .b = 0}};
  op.work = {.bytes_read = "M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "0"};
  op.reference = copy_reference;
  op.reference_source = "reference.cc";
  op.kernels = {elementwise::cpu_kernel("copy", tensors, {}),
                elementwise::beside_tilelang(elementwise::cuda_kernel("copy", tensors, {})),
                elementwise::opencl_kernel("copy", tensors, {}), elementwise::tilelang_kernel("copy", tensors)};
  op.cases = elementwise::cases();
  op.data_contracts = {{"cpu", "any strides; contiguous tensors are one stream"},
                       {"cuda", "any strides; contiguous tensors aligned to 16 bytes use vectors"},
                       {"opencl", "any strides; contiguous tensors use vectors"}};
  return op;
}

}  // namespace opforge
