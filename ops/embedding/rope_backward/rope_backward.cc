// embedding.rope_backward: the declaration.
#include "ops/embedding/rope.hpp"

namespace opforge {

void rope_backward_reference(ReferenceCall& call);

Operator opforge_operator_embedding_rope_backward() {
  Operator op;
  op.signature.name = "embedding.rope_backward";
  op.description = "gradient of the rotary position embedding: pairs of elements turned back";
  op.formula =
      "(dx[i], dx[j]) = (dy[i] c + dy[j] s, dy[j] c - dy[i] s), c = cos[p, i], s = sin[p, i]";
  op.reference = rope_backward_reference;
  embedding::complete_rope(op, "rope_backward", "dy", "dx");
  return op;
}

}  // namespace opforge
