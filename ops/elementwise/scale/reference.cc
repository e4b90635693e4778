#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void scale_reference(ReferenceCall& call) {
  const double alpha = std::get<double>(call.attributes.at("alpha"));
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  for (std::size_t i = 0; i < x.values.size(); ++i) y.values[i] = alpha * x.values[i];
}

}  // namespace opforge
