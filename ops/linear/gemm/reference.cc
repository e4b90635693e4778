// f(x w^T + bias) in double.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {
namespace {

struct Expected {
  double value, condition;
};

double normal_tail(double z) { return 0.5 * std::erfc(z * std::sqrt(0.5)); }

// Activations as their own operators have them: limits at infinities, exponents of size d that are
// d roundings off. `magnitude`: sum of magnitudes of `v`; no slope is above 1.13.
Expected activate(const std::string& name, double v, double magnitude) {
  if (name == "none") return {v, magnitude};
  double value = 0, size = 0;  // size: of the exponent
  if (std::isinf(v)) {
    value = v < 0 ? 0 : v;
  } else if (name == "gelu") {
    value = (v < 0 ? 0 : v) - std::fabs(v) * normal_tail(std::fabs(v));
    size = v * v / 4;
  } else {
    const double exponent =
        name == "silu" ? v : 2 * std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
    value = v / (1 + std::exp(-exponent));
    size = std::fabs(exponent);
  }
  const double own = std::fabs(value) * (1 + (v < 0 ? std::fmin(size, 1e3) : 0));
  return {value, 1.13 * magnitude + own + std::ldexp(1 + std::fmin(std::fabs(v), 1e3), -126)};
}

}  // namespace

void gemm_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& w = call.tensors.at("w");
  const ReferenceTensor& bias = call.tensors.at("bias");
  ReferenceTensor& y = call.tensors.at("y");
  const std::string activation = std::get<std::string>(call.attributes.at("activation"));
  const std::int64_t rows = x.dims[0], depth = x.dims[1], columns = w.dims[0];
  y.condition.resize(y.values.size());
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < columns; ++n) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double product = x.values[m * depth + k] * w.values[n * depth + k];
        sum += product;
        magnitude += std::fabs(product);
      }
      if (bias.present) {
        sum += bias.values[n];
        magnitude += std::fabs(bias.values[n]);
      }
      // Products below f32's normal range lose digits.
      magnitude += std::ldexp(1.0 + static_cast<double>(depth), -126);
      const Expected expected = activate(activation, sum, magnitude);
      y.values[m * columns + n] = expected.value;
      y.condition[m * columns + n] = expected.condition;
    }
  }
}

}  // namespace opforge
