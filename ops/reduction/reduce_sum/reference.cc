// Sum over the last dim, in double.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void reduce_sum_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0, magnitude = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += x.values[row * columns + i];
      magnitude += std::fabs(x.values[row * columns + i]);
    }
    y.values[row] = sum;
    y.condition[row] = magnitude;
  }
}

}  // namespace opforge
