// h = x + residual and its layer normalisation in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void fused_add_layer_norm_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  const ReferenceTensor& b = call.tensors.at("b");
  ReferenceTensor& residual = call.tensors.at("residual");
  ReferenceTensor& y = call.tensors.at("y");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  const double n = static_cast<double>(columns);
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    double* h = residual.values.data() + row * columns;
    double sum = 0, squares = 0, deviations = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      h[i] += x.values[row * columns + i];
      sum += h[i];
      squares += h[i] * h[i];
    }
    const double mean = sum / n;
    for (std::int64_t i = 0; i < columns; ++i) deviations += (h[i] - mean) * (h[i] - mean);
    const double deviation = std::sqrt(deviations / n + eps);
    const double size = std::sqrt(squares / n) / deviation;
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      const double normal = (h[i] - mean) / deviation, bias = b.present ? b.values[i] : 0;
      y.values[at] = normal * w.values[i] + bias;
      // As for the plain operator: the mean is as uncertain as h is large, and through it the
      // deviation.
      y.condition[at] = std::fabs(w.values[i]) *
                            (std::fabs(h[i]) / deviation + size + std::fabs(normal) * (1 + size)) +
                        std::fabs(bias) + std::ldexp(1 + std::fabs(w.values[i]), -126);
    }
  }
}

}  // namespace opforge
