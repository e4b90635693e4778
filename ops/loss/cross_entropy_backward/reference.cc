// The gradient of the cross entropy by the logits in double, from lse as it is given.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {

void cross_entropy_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& target = call.tensors.at("target");
  const ReferenceTensor& lse = call.tensors.at("lse");
  const ReferenceTensor& dloss = call.tensors.at("dloss");
  ReferenceTensor& dx = call.tensors.at("dx");
  const double e = std::get<double>(call.attributes.at("label_smoothing"));
  const double z = std::get<double>(call.attributes.at("z_loss"));
  const double ignored =
      static_cast<double>(std::get<std::int64_t>(call.attributes.at("ignore_index")));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  dx.condition.resize(dx.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const double t = target.values[row], l = lse.values[row], d = dloss.values[row];
    const bool inside = t >= 0 && t < static_cast<double>(columns);
    for (std::int64_t i = 0; i < columns; ++i) {
      const std::int64_t at = row * columns + i;
      if (t == ignored || !inside) {
        dx.values[at] = t == ignored ? 0 : NAN;
        dx.condition[at] = 0;
        continue;
      }
      const double p = std::exp(x.values[at] - l) * (z > 0 ? 1 + 2 * z * l : 1);
      const double taken =
          e / static_cast<double>(columns) + (static_cast<double>(i) == t ? 1 - e : 0);
      dx.values[at] = d * (p - taken);
      const double distance = p != 0 ? std::fabs(x.values[at] - l) : 0;
      const double scale = std::exp(x.values[at] - l) * (z > 0 ? 1 + 2 * z * std::fabs(l) : 1);
      dx.condition[at] = std::fabs(d) * (scale * (1 + distance) + taken + std::ldexp(1.0, -126)) +
                         std::ldexp(1.0, -126);
    }
  }
}

}  // namespace opforge
