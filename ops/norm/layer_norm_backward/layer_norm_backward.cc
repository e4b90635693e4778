// norm.layer_norm_backward: the declaration.
#include "ops/norm/norm_backward.hpp"

namespace opforge {

void layer_norm_backward_reference(ReferenceCall& call);

Operator opforge_operator_norm_layer_norm_backward() {
  Operator op;
  op.signature.name = "norm.layer_norm_backward";
  op.description = "gradients of layer_norm by its input and weights";
  op.formula =
      "z = (x - mean) r; dx = r (g - mean(g) - z mean(g z)); dw = sum_m dy z; db = sum_m dy; g = "
      "dy w, r = 1 / sqrt(var + eps)";
  op.reference = layer_norm_backward_reference;
  norm::complete(op, {.layer = true}, 1e-5);
  return op;
}

}  // namespace opforge
