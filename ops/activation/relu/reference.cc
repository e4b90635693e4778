// max(x, 0); NaN stays NaN.
#include "operator/reference.hpp"

namespace opforge {

void relu_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  for (std::size_t i = 0; i < x.values.size(); ++i) y.values[i] = x.values[i] < 0 ? 0 : x.values[i];
}

}  // namespace opforge
