// GELU in double. The limit at -inf is 0.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {
namespace {

struct Expected {
  double value, condition;
};

Expected gelu_erf(double x) {
  const double z = std::fabs(x);
  // z Phi(-z): what is taken from x on the right, and all there is on the left.
  const double tail = std::isinf(x) ? 0 : z * 0.5 * std::erfc(z * std::sqrt(0.5));
  return {(x < 0 ? 0 : x) - tail, std::fmax(x, 0) + tail * (1 + 0.25 * z * z)};
}

Expected gelu_tanh(double x) {
  if (std::isinf(x)) return {x < 0 ? 0 : x, std::fabs(x)};
  const double twice = 2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  const double value = x / (1 + std::exp(-twice));
  return {value, std::fabs(value) * (1 + (x < 0 ? std::fmin(-twice, 1e3) : 0))};
}

}  // namespace

void gelu_reference(ReferenceCall& call) {
  const bool erf = std::get<std::string>(call.attributes.at("form")) == "erf";
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& y = call.tensors.at("y");
  y.condition.resize(y.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double v = x.values[i];
    const Expected expected = erf ? gelu_erf(v) : gelu_tanh(v);
    y.values[i] = expected.value;
    // Results near 0 are as coarse as the f32 values in between.
    y.condition[i] = expected.condition + std::ldexp(1 + std::fmin(std::fabs(v), 1e3), -126);
  }
}

}  // namespace opforge
