#include "operator/reference.hpp"

#include <algorithm>
#include <cmath>

namespace opforge {

void hardswish_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  y.condition.resize(x.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double v = x.values[i];
    // Written so that NaN stays NaN.
    double gate = v + 3.0;
    if (gate < 0.0) gate = 0.0;
    if (gate > 6.0) gate = 6.0;
    y.values[i] = v * gate / 6.0;
    // The sum x + 3 cancels near -3: its magnitudes are |x| and 3.
    y.condition[i] = std::fabs(v) * std::min(std::fabs(v) + 3.0, 6.0) / 6.0;
  }
}

}  // namespace opforge
