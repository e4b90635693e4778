// Cross entropy in double, row by row.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {
namespace {

struct LogSum {
  double value, condition;
};

LogSum log_sum(const double* x, std::int64_t n) {
  double max = -INFINITY;
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] > max || std::isnan(x[i])) max = x[i];
  }
  if (std::isinf(max) && max < 0) return {max, 0};
  double sum = 0, spread = 0;  // spread: mean distance from the maximum
  for (std::int64_t i = 0; i < n; ++i) {
    const double p = std::exp(x[i] - max);
    sum += p;
    if (p > 0) spread += p * (max - x[i]);
  }
  const double log = std::log(sum);
  return {max + log, std::fabs(max) + log + 1 + spread / sum};
}

}  // namespace

void cross_entropy_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& target = call.tensors.at("target");
  ReferenceTensor& lse = call.tensors.at("lse");
  ReferenceTensor& loss = call.tensors.at("loss");
  const double smoothing = std::get<double>(call.attributes.at("label_smoothing"));
  const double z = std::get<double>(call.attributes.at("z_loss"));
  const double ignored =
      static_cast<double>(std::get<std::int64_t>(call.attributes.at("ignore_index")));
  const std::int64_t rows = x.dims[0], columns = x.dims[1];
  lse.condition.resize(lse.values.size());
  loss.condition.resize(loss.values.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x.values.data() + row * columns;
    const LogSum log = log_sum(in, columns);
    lse.values[row] = log.value;
    lse.condition[row] = log.condition;
    const double t = target.values[row];
    loss.condition[row] = 0;
    if (t == ignored) {
      loss.values[row] = 0;
      continue;
    }
    if (!(t >= 0 && t < static_cast<double>(columns))) {
      loss.values[row] = NAN;
      continue;
    }
    const double own = in[static_cast<std::int64_t>(t)];
    double mean = 0, magnitude = 0;
    for (std::int64_t i = 0; smoothing > 0 && i < columns; ++i) {
      mean += in[i] / static_cast<double>(columns);
      magnitude += std::fabs(in[i]) / static_cast<double>(columns);
    }
    loss.values[row] = log.value - (smoothing < 1 ? (1 - smoothing) * own : 0) -
                       (smoothing > 0 ? smoothing * mean : 0) +
                       (z > 0 ? z * log.value * log.value : 0);
    loss.condition[row] = log.condition * (1 + 2 * z * std::fabs(log.value)) +
                          z * log.value * log.value + std::fabs(own) + smoothing * magnitude;
  }
}

}  // namespace opforge
