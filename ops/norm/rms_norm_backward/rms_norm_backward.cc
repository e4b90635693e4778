// norm.rms_norm_backward: the declaration.
#include "ops/norm/norm_backward.hpp"

namespace opforge {

void rms_norm_backward_reference(ReferenceCall& call);

Operator opforge_operator_norm_rms_norm_backward() {
  Operator op;
  op.signature.name = "norm.rms_norm_backward";
  op.description = "gradients of rms_norm by its input and weight";
  op.formula =
      "z = x r; dx = r (g - z mean(g z)); dw = sum_m dy z; g = dy w, r = 1 / sqrt(mean x^2 + eps)";
  op.reference = rms_norm_backward_reference;
  norm::complete(op, {.zero_centered = true}, 1e-6);
  return op;
}

}  // namespace opforge
