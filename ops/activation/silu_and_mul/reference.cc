// silu(gate) * up in double. silu's limit at -inf is 0.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void silu_and_mul_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  const std::int64_t rows = y.dims[0], columns = y.dims[1];
  y.condition.resize(y.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const double gate = x.values[row * 2 * columns + i];
      const double up = x.values[row * 2 * columns + columns + i];
      const double silu = std::isinf(gate) && gate < 0 ? 0.0 : gate / (1 + std::exp(-gate));
      const std::int64_t at = row * columns + i;
      y.values[at] = silu * up;
      // exp(gate) of a rounded argument; SiLU near 0 is as coarse as the f32 values in between.
      const double distance = gate < 0 ? std::fmin(-gate, 1e3) : 0;
      y.condition[at] = std::fabs(y.values[at]) * (1 + distance) +
                        std::ldexp((1 + distance) * (1 + std::fabs(up)), -126);
    }
  }
}

}  // namespace opforge
