// activation.gelu_backward: the declaration.
#include "ops/elementwise/elementwise.hpp"

namespace opforge {

void gelu_backward_reference(ReferenceCall& call);

Operator opforge_operator_activation_gelu_backward() {
  const std::vector<std::string> tensors{"dy", "x", "dx"};
  Operator op;
  op.signature.name = "activation.gelu_backward";
  op.signature.tensors = {{.name = "dy", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "dx",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"dy"}}};
  op.signature.attributes = {{.name = "form",
                              .type = AttrType::kText,
                              .default_value = "erf",
                              .choices = {"erf", "tanh"},
                              .baked = true,
                              .baked_values = {"erf", "tanh"}}};
  op.description = "gradient of gelu";
  op.formula = "dx = dy (Phi(x) + x phi(x)) (erf), or dy times the slope of the tanh form";
  op.work = {.bytes_read = "2 * M * N * T.itemsize",
             .bytes_written = "M * N * T.itemsize",
             .flops = "20 * M * N"};
  op.reference = gelu_backward_reference;
  elementwise::complete(op,
                        {elementwise::cpu_kernel("gelu_backward", tensors, {}),
                         elementwise::cuda_kernel("gelu_backward", tensors, {})},
                        {.a = 0.5, .b = 16});  // derived in README.md
  op.cases = elementwise::cases(false);
  return op;
}

}  // namespace opforge
