// The gradients of layer_norm in double. Conditions: README.md.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void layer_norm_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  ReferenceTensor& dx = call.tensors.at("dx");
  ReferenceTensor& dw = call.tensors.at("dw");
  ReferenceTensor& db = call.tensors.at("db");
  const double eps = std::get<double>(call.attributes.at("eps"));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  const double n = static_cast<double>(columns), tiny = std::ldexp(1.0, -126);
  dx.condition.resize(dx.values.size());
  dw.values.assign(dw.values.size(), 0);
  dw.condition.assign(dw.values.size(), tiny);
  db.values.assign(db.values.size(), 0);
  db.condition.assign(db.values.size(), tiny);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x.values.data() + row * columns;
    const double* d = dy.values.data() + row * columns;
    double mean = 0, squares = 0, deviations = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      mean += in[i] / n;
      squares += in[i] * in[i];
    }
    for (std::int64_t i = 0; i < columns; ++i) deviations += (in[i] - mean) * (in[i] - mean);
    const double s = std::sqrt(deviations / n + eps), size = std::sqrt(squares / n) / s;
    double g_mean = 0, product_mean = 0, g_size = 0, product_size = 0, product_doubt = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const double g = d[i] * w.values[i] / n, z = (in[i] - mean) / s;
      const double doubt = std::fabs(in[i]) / s + size + std::fabs(z) * (1 + size);
      const double magnitude = std::fabs(d[i]) * std::fabs(w.values[i]) / n;
      g_mean += g;
      product_mean += g * z;
      g_size += magnitude;
      product_size += magnitude * std::fabs(z);
      product_doubt += magnitude * doubt;
      dw.values[i] += d[i] * z;
      dw.condition[i] += std::fabs(d[i]) * (doubt + tiny);
      db.values[i] += d[i];
      db.condition[i] += std::fabs(d[i]);
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      const double g = d[i] * w.values[i], z = (in[i] - mean) / s;
      const double doubt = std::fabs(in[i]) / s + size + std::fabs(z) * (1 + size);
      const double magnitude = std::fabs(d[i]) * std::fabs(w.values[i]);
      dx.values[at] = (g - g_mean - z * product_mean) / s;
      dx.condition[at] = ((magnitude + g_size + std::fabs(z) * product_size) * (1 + size) +
                          doubt * product_size + std::fabs(z) * product_doubt + tiny) /
                             s +
                         tiny;
    }
  }
}

}  // namespace opforge
