#include "operator/reference.hpp"

#include <algorithm>
#include <cmath>

namespace opforge {

void warp_reduce_sum_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  const std::int64_t rows = x.dims[0], columns = x.dims[1], groups = y.dims[1];
  y.condition.assign(y.values.size(), 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      double sum = 0, magnitude = 0;
      for (std::int64_t column = group * 32; column < std::min(columns, group * 32 + 32); ++column) {
        const double value = x.values[static_cast<std::size_t>(row * columns + column)];
        sum += value;
        magnitude += std::fabs(value);
      }
      y.values[static_cast<std::size_t>(row * groups + group)] = sum;
      y.condition[static_cast<std::size_t>(row * groups + group)] = magnitude;
    }
  }
}

}  // namespace opforge
