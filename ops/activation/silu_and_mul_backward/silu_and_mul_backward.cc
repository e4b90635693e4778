// activation.silu_and_mul_backward: the declaration.
#include "ops/elementwise/elementwise.hpp"

namespace opforge {

void silu_and_mul_backward_reference(ReferenceCall& call);

Operator opforge_operator_activation_silu_and_mul_backward() {
  const std::vector<std::string> tensors{"dy", "x", "dx"};
  Operator op;
  op.signature.name = "activation.silu_and_mul_backward";
  op.signature.tensors = {{.name = "dy", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "x", .dims = {"...M", "2*N"}, .dtype = "T"},
                          {.name = "dx",
                           .dims = {"...M", "2*N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.description = "gradient of silu_and_mul";
  op.formula =
      "s = 1 / (1 + exp(-gate)); dx = (dy up s (1 + gate (1 - s)), dy gate s), (gate, up) = x";
  op.work = {.bytes_read = "3 * M * N * T.itemsize",
             .bytes_written = "2 * M * N * T.itemsize",
             .flops = "16 * M * N"};
  op.reference = silu_and_mul_backward_reference;
  elementwise::complete(op,
                        {elementwise::cpu_rows_kernel("silu_and_mul_backward", tensors, {}),
                         elementwise::cuda_rows_kernel("silu_and_mul_backward", tensors, {})},
                        {.a = 0.5, .b = 10});  // derived in README.md
  op.cases = elementwise::cases(false);
  return op;
}

}  // namespace opforge
