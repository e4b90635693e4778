// embedding.rope: the declaration.
#include "ops/embedding/rope.hpp"

namespace opforge {

void rope_reference(ReferenceCall& call);

Operator opforge_operator_embedding_rope() {
  Operator op;
  op.signature.name = "embedding.rope";
  op.description =
      "rotary position embedding: pairs of elements turned by an angle of their position";
  op.formula = "(y[i], y[j]) = (x[i] c - x[j] s, x[j] c + x[i] s), c = cos[p, i], s = sin[p, i]";
  op.reference = rope_reference;
  embedding::complete_rope(op, "rope", "x", "y");
  return op;
}

}  // namespace opforge
