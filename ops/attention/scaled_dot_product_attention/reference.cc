// Attention in double, query by query. Keys that take no part do not touch the result.
#include "operator/reference.hpp"

#include <cmath>

namespace opforge {
namespace {

struct Score {
  double value, condition;
};

struct Attention {
  const ReferenceTensor &q, &k, &v, &mask, &bias;
  std::int64_t groups, reach;
  double scale;

  // -inf: takes no part. `row`: of q; `keys`: first row of k and v.
  Score score(std::int64_t row, std::int64_t keys, std::int64_t l, std::int64_t s) const {
    const std::int64_t width = q.dims[3], pair = row * k.dims[2] + s;
    if (s > l + reach || (mask.present && mask.values[pair] == 0)) return {-INFINITY, 0};
    double sum = 0, magnitude = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const double product = q.values[row * width + d] * k.values[(keys + s) * width + d];
      sum += product;
      magnitude += std::fabs(product);
    }
    const double added = bias.present ? bias.values[pair] : 0;
    return {sum * scale + added, magnitude * scale + std::fabs(added)};
  }

  void query(std::int64_t row, std::int64_t keys, std::int64_t l, ReferenceTensor& y) const {
    const std::int64_t width = q.dims[3], count = k.dims[2];
    std::vector<Score> scores(static_cast<std::size_t>(count));
    double max = -INFINITY;
    for (std::int64_t s = 0; s < count; ++s) {
      scores[s] = score(row, keys, l, s);
      if (scores[s].value > max || std::isnan(scores[s].value)) max = scores[s].value;
    }
    double sum = 0, doubt = 0;
    double* out = y.values.data() + row * width;
    double* condition = y.condition.data() + row * width;
    for (std::int64_t d = 0; d < width; ++d) out[d] = condition[d] = 0;
    for (std::int64_t s = 0; s < count; ++s) {
      if (std::isinf(scores[s].value) && scores[s].value < 0) continue;
      const double p = std::exp(scores[s].value - max);
      // A score's rounding is an error of its probability; so is that of its distance from the
      // maximum.
      const double weight = p * (1 + scores[s].condition + (p > 0 ? max - scores[s].value : 0));
      sum += p;
      doubt += weight;
      for (std::int64_t d = 0; d < width; ++d) {
        const double value = v.values[(keys + s) * width + d];
        out[d] += p * value;
        condition[d] += weight * std::fabs(value);
      }
    }
    for (std::int64_t d = 0; d < width; ++d) {
      if (sum == 0) continue;  // nothing takes part: zeros
      out[d] /= sum;
      condition[d] = (condition[d] + std::fabs(out[d]) * doubt) / sum + std::ldexp(1.0, -126);
    }
  }
};

}  // namespace

void scaled_dot_product_attention_reference(ReferenceCall& call) {
  const ReferenceTensor& q = call.tensors.at("q");
  const ReferenceTensor& k = call.tensors.at("k");
  ReferenceTensor& y = call.tensors.at("y");
  const std::string causal = std::get<std::string>(call.attributes.at("causal"));
  double scale = std::get<double>(call.attributes.at("scale"));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.dims[3] > 0 ? q.dims[3] : 1));
  const std::int64_t queries = q.dims[2], keys = k.dims[2], heads = q.dims[1];
  const std::int64_t groups = std::get<std::int64_t>(call.attributes.at("groups"));
  const std::int64_t reach = causal == "lower_right"  ? keys - queries
                             : causal == "upper_left" ? 0
                                                      : keys;
  const Attention attention{
      q,     k,    call.tensors.at("v"), call.tensors.at("mask"), call.tensors.at("bias"), groups,
      reach, scale};
  y.condition.assign(y.values.size(), 0);
  for (std::int64_t b = 0; b < q.dims[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t l = 0; l < queries; ++l) {
        attention.query((b * heads + h) * queries + l, (b * (heads / groups) + h / groups) * keys,
                        l, y);
      }
    }
  }
}

}  // namespace opforge
