// RMS normalisation in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void rms_norm_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  ReferenceTensor& y = call.tensors.at("y");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const double shift = std::get<std::int64_t>(call.attributes.at("zero_centered")) != 0 ? 1 : 0;
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const double v = x.values[row * columns + i];
      squares += v * v;
    }
    const double rms = std::sqrt(squares / static_cast<double>(columns) + eps);
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      const double weight = w.values[i] + shift;
      y.values[at] = x.values[at] / rms * weight;
      // A zero-centred weight is a sum; results near 0 are as coarse as the f32 values in between.
      y.condition[at] = std::fabs(x.values[at] / rms) * (std::fabs(w.values[i]) + shift) +
                        std::ldexp(1 + std::fabs(weight), -126);
    }
  }
}

}  // namespace opforge
