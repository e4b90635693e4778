// dy times GELU's slope, in double. The slope's limits are 0 and 1.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {
namespace {

struct Slope {
  double value, condition;
};

Slope erf_slope(double x) {
  if (std::isinf(x)) return {x < 0 ? 0.0 : 1.0, 1};
  const double z = std::fabs(x), phi = 0.5 * std::erfc(z * std::sqrt(0.5));
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979323846);
  const double left = phi - z * density;
  return {x < 0 ? left : 1 - left, (x > 0 ? 1 : 0) + (phi + z * density) * (1 + 0.25 * z * z)};
}

Slope tanh_slope(double x) {
  if (std::isinf(x)) return {x < 0 ? 0.0 : 1.0, 1};
  const double k = 2 * std::sqrt(2 / 3.14159265358979323846);
  const double argument = k * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-argument)), t = 1 / (1 + std::exp(argument));
  const double curved = x * k * (1 + 3 * 0.044715 * x * x) * s * t;
  const double size = std::fmin(std::fabs(argument), 1e3);
  return {s + curved, s * (1 + (x < 0 ? size : 0)) + std::fabs(curved) * (1 + size)};
}

}  // namespace

void gelu_backward_reference(ReferenceCall& call) {
  const bool erf = std::get<std::string>(call.attributes.at("form")) == "erf";
  const ReferenceTensor& dy = call.tensors.at("dy");
  const ReferenceTensor& x = call.tensors.at("x");
  ReferenceTensor& dx = call.tensors.at("dx");
  dx.condition.resize(dx.values.size());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const Slope slope = erf ? erf_slope(x.values[i]) : tanh_slope(x.values[i]);
    dx.values[i] = dy.values[i] * slope.value;
    dx.condition[i] =
        std::fabs(dy.values[i]) * (slope.condition + std::ldexp(1e3, -126)) + std::ldexp(1.0, -126);
  }
}

}  // namespace opforge
