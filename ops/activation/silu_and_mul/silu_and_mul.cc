// activation.silu_and_mul: the declaration.
#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/elementwise_triton.hpp"

namespace opforge {

void silu_and_mul_reference(ReferenceCall& call);

Operator opforge_operator_activation_silu_and_mul() {
  const std::vector<std::string> tensors{"x", "y"};
  Operator op;
  op.signature.name = "activation.silu_and_mul";
  op.signature.tensors = {
      {.name = "x", .dims = {"...M", "2*N"}, .dtype = "T"},
      {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite}};
  op.description = "SwiGLU's gate: the first half of a row through SiLU, times the second half";
  op.formula = "y[m,n] = x[m,n] / (1 + exp(-x[m,n])) * x[m,N+n]";
  op.work = {.bytes_read = "2 * M * N * T.itemsize",
             .bytes_written = "M * N * T.itemsize",
             .flops = "12 * M * N"};
  op.reference = silu_and_mul_reference;
  elementwise::complete(
      op,
      {elementwise::cpu_rows_kernel("silu_and_mul", tensors, {}),
       elementwise::beside_triton(elementwise::cuda_rows_kernel("silu_and_mul", tensors, {})),
       elementwise::opencl_rows_kernel("silu_and_mul", tensors, {}),
       elementwise::triton_rows_kernel("silu_and_mul", tensors, {})},
      {.a = 0.5, .b = 6});  // derived in README.md
  op.cases = elementwise::cases();
  return op;
}

}  // namespace opforge
