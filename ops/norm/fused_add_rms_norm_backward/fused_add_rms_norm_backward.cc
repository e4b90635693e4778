// norm.fused_add_rms_norm_backward: the declaration.
#include "ops/norm/norm_backward.hpp"

namespace opforge {

void fused_add_rms_norm_backward_reference(ReferenceCall& call);

Operator opforge_operator_norm_fused_add_rms_norm_backward() {
  Operator op;
  op.signature.name = "norm.fused_add_rms_norm_backward";
  op.description = "gradients of fused_add_rms_norm by its input and weight";
  op.formula =
      "z = x r; dx = r (g - z mean(g z)) + dresidual; dw = sum_m dy z; g = dy w, r = 1 / sqrt(mean "
      "x^2 + eps), x the new residual";
  op.reference = fused_add_rms_norm_backward_reference;
  norm::complete(op, {.x = "residual", .added = "dresidual"}, 1e-6);
  return op;
}

}  // namespace opforge
