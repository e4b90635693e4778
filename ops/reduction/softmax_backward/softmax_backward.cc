// reduction.softmax_backward: the declaration.
#include "ops/row_kernels.hpp"

namespace opforge {

void softmax_backward_reference(ReferenceCall& call);

Operator opforge_operator_reduction_softmax_backward() {
  Operator op;
  op.description = "gradient of softmax over the last dim";
  op.formula = "dx[m,n] = y[m,n] (dy[m,n] - sum_k dy[m,k] y[m,k])";
  op.signature.name = "reduction.softmax_backward";
  op.signature.tensors = {{.name = "dy", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "dx",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"dy"}}};
  op.signature.dtypes = rows::plain_dtypes();
  op.work = {"2 * M * N * T.itemsize", "M * N * T.itemsize", "4 * M * N"};
  op.reference = &softmax_backward_reference;
  rows::complete(op,
                 {.entry = "softmax_backward",
                  .pointers = {"dy", "y", "dx"},
                  .scalars = {},
                  .tensors = {{"dy", "y", "dx"}, {}}},
                 {.a = 0.5, .b = 20});  // derived in README.md
  op.cases = rows::few_row_cases();
  return op;
}

}  // namespace opforge
