// softmax(x) in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void softmax_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x.values.data() + row * columns;
    double* out = y.values.data() + row * columns;
    double* condition = y.condition.data() + row * columns;
    double max = -INFINITY;
    for (std::int64_t i = 0; i < columns; ++i) {
      if (in[i] > max || std::isnan(in[i])) max = in[i];
    }
    double sum = 0, spread = 0;  // spread: mean distance from the maximum
    for (std::int64_t i = 0; i < columns; ++i) {
      out[i] = std::exp(in[i] - max);
      sum += out[i];
      if (out[i] > 0) spread += out[i] * (max - in[i]);
    }
    spread /= sum;
    for (std::int64_t i = 0; i < columns; ++i) {
      out[i] /= sum;
      // An exponent of size d that is rounded to f32 changes exp by d roundings; results near 0 are
      // as coarse as the f32 values in between: 2^-126 is eps(f32) of the smallest step.
      const double distance = out[i] > 0 ? max - in[i] : 0;
      condition[i] = out[i] * (1 + distance + spread) + std::ldexp(1.0, -126);
    }
  }
}

}  // namespace opforge
