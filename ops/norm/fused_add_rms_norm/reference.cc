// h = x + residual and its RMS normalisation in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void fused_add_rms_norm_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  ReferenceTensor& residual = call.tensors.at("residual");
  ReferenceTensor& y = call.tensors.at("y");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      double& sum = residual.values[row * columns + i];
      sum += x.values[row * columns + i];
      squares += sum * sum;
    }
    const double rms = std::sqrt(squares / static_cast<double>(columns) + eps);
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      y.values[at] = residual.values[at] / rms * w.values[i];
      // Results near 0 are as coarse as the f32 values in between.
      y.condition[at] = std::fabs(y.values[at]) + std::ldexp(1 + std::fabs(w.values[i]), -126);
    }
  }
}

}  // namespace opforge
