// activation.gelu: the declaration.
#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/elementwise_triton.hpp"

namespace opforge {

void gelu_reference(ReferenceCall& call);

Operator opforge_operator_activation_gelu() {
  const std::vector<std::string> tensors{"x", "y"};
  Operator op;
  op.signature.name = "activation.gelu";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.attributes = {{.name = "form",
                              .type = AttrType::kText,
                              .default_value = "erf",
                              .choices = {"erf", "tanh"},
                              .baked = true,
                              .baked_values = {"erf", "tanh"}}};
  op.description = "Gaussian error linear unit, exact or in the tanh form";
  op.formula = "y = x Phi(x) (erf), y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (tanh)";
  op.work = {.bytes_read = "M * N * T.itemsize",
             .bytes_written = "M * N * T.itemsize",
             .flops = "20 * M * N"};
  op.reference = gelu_reference;
  elementwise::complete(op,
                        {elementwise::cpu_kernel("gelu", tensors, {}),
                         elementwise::beside_triton(elementwise::cuda_kernel("gelu", tensors, {})),
                         elementwise::opencl_kernel("gelu", tensors, {}),
                         elementwise::triton_kernel("gelu", tensors, {})},
                        {.a = 0.5, .b = 10});  // derived in README.md
  op.cases = elementwise::cases(false);
  return op;
}

}  // namespace opforge
