// The gradients of rms_norm in double. Conditions: README.md.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void rms_norm_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  ReferenceTensor& dx = call.tensors.at("dx");
  ReferenceTensor& dw = call.tensors.at("dw");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const double shift = std::get<std::int64_t>(call.attributes.at("zero_centered")) != 0 ? 1 : 0;
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  const double n = static_cast<double>(columns), tiny = std::ldexp(1.0, -126);
  dx.condition.resize(dx.values.size());
  dw.values.assign(dw.values.size(), 0);
  dw.condition.assign(dw.values.size(), tiny);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x.values.data() + row * columns;
    const double* d = dy.values.data() + row * columns;
    double squares = 0;
    for (std::int64_t i = 0; i < columns; ++i) squares += in[i] * in[i];
    const double s = std::sqrt(squares / n + eps);
    double product_mean = 0, product_size = 0, product_doubt = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const double g = d[i] * (w.values[i] + shift) / n, z = in[i] / s;
      const double doubt = std::fabs(z);
      const double magnitude = std::fabs(d[i]) * (std::fabs(w.values[i]) + shift) / n;
      product_mean += g * z;
      product_size += magnitude * std::fabs(z);
      product_doubt += magnitude * doubt;
      dw.values[i] += d[i] * z;
      dw.condition[i] += std::fabs(d[i]) * (doubt + tiny);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      const double g = d[i] * (w.values[i] + shift), z = in[i] / s;
      const double doubt = std::fabs(z);
      const double magnitude = std::fabs(d[i]) * (std::fabs(w.values[i]) + shift);
      dx.values[at] = (g - z * product_mean) / s;
      dx.condition[at] = ((magnitude + std::fabs(z) * product_size) + doubt * product_size +
                          std::fabs(z) * product_doubt + tiny) /
                             s +
                         tiny;
    }
  }
}

}  // namespace opforge
