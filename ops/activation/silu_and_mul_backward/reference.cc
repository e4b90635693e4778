// The gradient of silu(gate) * up in double. Limits of SiLU and its slope at -inf are 0, at +inf
// gate and 1.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void silu_and_mul_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& dx = call.tensors.at("dx");
  const std::int64_t rows = dy.dims[0], columns = dy.dims[1];
  dx.condition.resize(dx.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * 2 * columns + i, other = at + columns;
      const double gate = x.values[at], up = x.values[other], d = dy.values[row * columns + i];
      double silu = 0, slope = 0, doubt = 0;  // doubt: condition of the slope
      const double size = std::fmin(std::fabs(gate), 1e3), tiny = std::ldexp(1 + size, -126);
      if (std::isinf(gate)) {
        silu = gate < 0 ? 0 : gate;
        slope = gate < 0 ? 0 : 1;
        doubt = 1;
      } else {
        const double s = 1 / (1 + std::exp(-gate)), t = 1 / (1 + std::exp(gate));
        silu = gate * s;
        slope = s + gate * s * t;
        doubt = s * (1 + (gate < 0 ? size : 0)) + std::fabs(gate * s * t) * (1 + size);
      }
      dx.values[at] = d * slope * up;
      dx.values[other] = d * silu;
      dx.condition[at] = std::fabs(d * up) * (doubt + tiny) + tiny * (1 + std::fabs(up));
      dx.condition[other] =
          std::fabs(d * silu) * (1 + (gate < 0 ? size : 0)) + tiny * (1 + std::fabs(d));
    }
  }
}

}  // namespace opforge
