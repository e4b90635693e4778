// activation.relu_backward: the declaration.
#include "ops/elementwise/elementwise.hpp"

namespace opforge {

void relu_backward_reference(ReferenceCall& call);

Operator opforge_operator_activation_relu_backward() {
  const std::vector<std::string> tensors{"dy", "x", "dx"};
  Operator op;
  op.signature.name = "activation.relu_backward";
  op.signature.tensors = {{.name = "dy", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "dx",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"dy"}}};
  op.description = "gradient of relu";
  op.formula = "dx = x > 0 ? dy : 0";
  op.work = {.bytes_read = "2 * M * N * T.itemsize",
             .bytes_written = "M * N * T.itemsize",
             .flops = "M * N"};
  op.reference = relu_backward_reference;
  elementwise::complete(op,
                        {elementwise::cpu_kernel("relu_backward", tensors, {}),
                         elementwise::cuda_kernel("relu_backward", tensors, {})},
                        {.a = 0.5, .b = 0});
  op.cases = elementwise::cases(false);
  return op;
}

}  // namespace opforge
