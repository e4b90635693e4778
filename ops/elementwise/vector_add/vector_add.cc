#include "../elementwise.hpp"

namespace opforge {

void vector_add_reference(ReferenceCall& call);

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
  op.kernels = {elementwise::cpu_kernel("vector_add", tensors, {}), elementwise::cuda_kernel("vector_add", tensors, {}),
                elementwise::opencl_kernel("vector_add", tensors, {})};
  op.cases = elementwise::cases();
  op.data_contracts = {{"cpu", "any strides; contiguous tensors are one stream"},
                       {"cuda", "any strides; contiguous tensors aligned to 16 bytes use vectors"},
                       {"opencl", "any strides; contiguous tensors use vectors"}};
  return op;
}

}  // namespace opforge
