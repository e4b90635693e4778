#include "verify/compare.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace opforge {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double rounded(double value, DType dtype) {
  std::uint64_t slot = 0;
  store_from_double(&slot, dtype, value);
  return load_as_double(&slot, dtype);
}

std::string index_text(std::int64_t index, std::span<const std::int64_t> dims,
                       std::vector<std::int64_t>* at) {
  std::vector<std::int64_t> position(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    position[axis] = dims[axis] > 0 ? index % dims[axis] : 0;
    index = dims[axis] > 0 ? index / dims[axis] : 0;
  }
  std::string text;
  for (const std::int64_t i : position) text += fmt::format("{}{}", text.empty() ? "" : ",", i);
  if (at != nullptr) *at = std::move(position);
  return text;
}

}  // namespace

ElementError compare_element(double actual, double reference, double condition, DType output,
                             const Bound& bound) {
  if (std::isnan(reference)) {
    return std::isnan(actual) ? ElementError{} : ElementError{false, kInfinity, kInfinity};
  }
  if (std::isnan(actual)) return {false, kInfinity, kInfinity};
  if (!is_floating(output)) {
    const double error = std::abs(actual - rounded(reference, output));
    return {error == 0, error, error == 0 ? 0 : kInfinity};
  }
  if (actual == reference) return {};
  if (std::isinf(reference)) return {false, kInfinity, kInfinity};
  // A finite result out of infinite magnitudes (1 / inf) has no sum that could have cancelled.
  const double limit =
      bound.limit(reference, std::isfinite(condition) ? condition : std::abs(reference), output);
  if (std::isinf(actual)) {
    // Right where the reference overflows the dtype, and within the bound of that.
    const bool ok =
        (actual > 0) == (reference > 0) &&
        std::isinf(rounded(std::copysign(std::abs(reference) + limit, reference), output));
    return ok ? ElementError{} : ElementError{false, kInfinity, kInfinity};
  }
  const double error = std::abs(actual - reference);
  const double share = error == 0 ? 0 : (limit > 0 ? error / limit : kInfinity);
  return {share <= 1, error / ulp_at(reference, output), share};
}

TensorErrors compare_tensor(std::string_view name, std::span<const double> actual,
                            const ReferenceTensor& reference, DType output, const Bound& bound) {
  TensorErrors out;
  out.elements = static_cast<std::int64_t>(reference.values.size());
  if (actual.size() != reference.values.size()) {
    out.wrong = std::max<std::int64_t>(out.elements, 1);
    out.worst_share = out.worst_ulps = kInfinity;
    out.problem = fmt::format("{} has {} elements, the reference gave {}", name, actual.size(),
                              reference.values.size());
    return out;
  }
  std::int64_t worst = -1;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double expected = reference.values[i];
    const double condition =
        i < reference.condition.size() ? reference.condition[i] : std::abs(expected);
    const ElementError error = compare_element(actual[i], expected, condition, output, bound);
    out.worst_ulps = std::max(out.worst_ulps, error.ulps);
    if (!error.ok) ++out.wrong;
    if (error.share > out.worst_share || worst < 0) {
      out.worst_share = std::max(out.worst_share, error.share);
      worst = static_cast<std::int64_t>(i);
    }
  }
  if (worst < 0) return out;
  const std::string at = index_text(worst, reference.dims, &out.worst_at);
  if (out.wrong > 0) {
    const auto i = static_cast<std::size_t>(worst);
    const double expected = reference.values[i];
    const double condition =
        i < reference.condition.size() ? reference.condition[i] : std::abs(expected);
    out.problem = fmt::format(
        "{}[{}] is {:.9g}, expected {:.9g} within {:.3g} ({} of {} elements are wrong)", name, at,
        actual[i], expected, bound.limit(expected, condition, output), out.wrong, out.elements);
  }
  return out;
}

}  // namespace opforge
