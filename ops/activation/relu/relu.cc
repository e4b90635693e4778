// activation.relu: the declaration.
#include "ops/elementwise/elementwise.hpp"

namespace opforge {

void relu_reference(ReferenceCall& call);

Operator opforge_operator_activation_relu() {
  const std::vector<std::string> tensors{"x", "y"};
  Operator op;
  op.signature.name = "activation.relu";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.description = "the positive part of every element";
  op.formula = "y = max(x, 0)";
  op.work = {
      .bytes_read = "M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "M * N"};
  op.reference = relu_reference;
  elementwise::complete(
      op,
      {elementwise::cpu_kernel("relu", tensors, {}), elementwise::cuda_kernel("relu", tensors, {})},
      {.a = 0.5, .b = 0});
  op.cases = elementwise::cases(false);
  return op;
}

}  // namespace opforge
