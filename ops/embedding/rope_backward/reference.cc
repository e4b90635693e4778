// Rotary embedding in double, turned back.
#include "operator/reference.hpp"

#include <algorithm>
#include <cmath>

namespace opforge {

void rope_backward_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("dy");
  const ReferenceTensor& cos = call.tensors.at("cos");
  const ReferenceTensor& sin = call.tensors.at("sin");
  const ReferenceTensor& positions = call.tensors.at("positions");
  ReferenceTensor& y = call.tensors.at("dx");
  const std::int64_t offset = std::get<std::int64_t>(call.attributes.at("offset"));
  const bool interleaved = std::get<std::int64_t>(call.attributes.at("interleaved")) != 0;
  const std::int64_t heads = x.dims[2], width = x.dims[3], places = cos.dims[0];
  const std::int64_t pairs = std::min(cos.dims[1], width / 2);
  y.values = x.values;
  y.condition.assign(x.values.size(), 0);
  for (std::int64_t token = 0; token < x.dims[0] * x.dims[1]; ++token) {
    const std::int64_t place =
        offset + (positions.present ? static_cast<std::int64_t>(positions.values[token])
                                    : token % x.dims[1]);
    const bool inside = place >= 0 && place < places;
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t row = (token * heads + head) * width;
        const std::int64_t first = row + (interleaved ? 2 * i : i);
        const std::int64_t second = row + (interleaved ? 2 * i + 1 : i + pairs);
        const double c = inside ? cos.values[place * cos.dims[1] + i] : NAN;
        const double s = inside ? -sin.values[place * cos.dims[1] + i] : NAN;
        const double a = x.values[first], b = x.values[second];
        y.values[first] = a * c - b * s;
        y.values[second] = b * c + a * s;
        y.condition[first] = std::fabs(a * c) + std::fabs(b * s) + std::ldexp(1.0, -126);
        y.condition[second] = std::fabs(b * c) + std::fabs(a * s) + std::ldexp(1.0, -126);
      }
    }
  }
}

}  // namespace opforge
