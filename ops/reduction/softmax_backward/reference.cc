// The gradient of softmax in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void softmax_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& y = call.tensors.at("y");
  ReferenceTensor& dx = call.tensors.at("dx");
  const std::int64_t rows = y.dims[0], columns = y.dims[1];
  dx.condition.resize(dx.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0, magnitude = 0;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      sum += dy.values[i] * y.values[i];
      magnitude += std::fabs(dy.values[i] * y.values[i]);
    }
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      dx.values[i] = y.values[i] * (dy.values[i] - sum);
      dx.condition[i] = std::fabs(y.values[i]) * (std::fabs(dy.values[i]) + magnitude +
                                                  std::ldexp(1.0 + double(columns), -126)) +
                        std::ldexp(1.0, -126);
    }
  }
}

}  // namespace opforge
