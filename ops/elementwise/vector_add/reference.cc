#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void vector_add_reference(ReferenceCall& call) {
  const ReferenceTensor& a = call.tensors.at("a");
  const ReferenceTensor& b = call.tensors.at("b");
  ReferenceTensor& y = call.tensors.at("y");
  y.condition.resize(y.values.size());
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] = a.values[i] + b.values[i];
    y.condition[i] = std::fabs(a.values[i]) + std::fabs(b.values[i]);
  }
}

}  // namespace opforge
