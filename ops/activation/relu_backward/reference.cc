// dy where x > 0; NaN where x is NaN.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void relu_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& dx = call.tensors.at("dx");
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double v = x.values[i];
    dx.values[i] = std::isnan(v) ? v : v > 0 ? dy.values[i] : 0;
  }
}

}  // namespace opforge
