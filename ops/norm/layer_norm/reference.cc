// Layer normalisation in double, row by row, in two passes.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void layer_norm_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  const ReferenceTensor& b = call.tensors.at("b");
  ReferenceTensor& y = call.tensors.at("y");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  const double n = static_cast<double>(columns);
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x.values.data() + row * columns;
    double sum = 0, squares = 0, deviations = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += in[i];
      squares += in[i] * in[i];
    }
    const double mean = sum / n;
    for (std::int64_t i = 0; i < columns; ++i) deviations += (in[i] - mean) * (in[i] - mean);
    const double deviation = std::sqrt(deviations / n + eps);
    const double size = std::sqrt(squares / n) / deviation;  // of the inputs, in deviations
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      const double normal = (in[i] - mean) / deviation;
      const double bias = b.present ? b.values[i] : 0;
      y.values[at] = normal * w.values[i] + bias;
      // The mean is as uncertain as the inputs are large; through it, so is the deviation. Results
      // near 0 are as coarse as the f32 values in between.
      y.condition[at] = std::fabs(w.values[i]) *
                            (std::fabs(in[i]) / deviation + size + std::fabs(normal) * (1 + size)) +
                        std::fabs(bias) + std::ldexp(1 + std::fabs(w.values[i]), -126);
    }
  }
}

}  // namespace opforge
