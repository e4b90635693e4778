#include "operator/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace opforge {

std::int64_t nearest_listed(std::span<const std::int64_t> values, std::int64_t wanted) {
  const auto above = std::lower_bound(values.begin(), values.end(), wanted);
  if (above == values.begin()) return values.front();
  if (above == values.end()) return values.back();
  const std::int64_t below = *(above - 1);
  // Unsigned differences: both lie within 64 bits whatever the signs.
  const auto down = static_cast<std::uint64_t>(wanted) - static_cast<std::uint64_t>(below);
  const auto up = static_cast<std::uint64_t>(*above) - static_cast<std::uint64_t>(wanted);
  return down <= up ? below : *above;
}

Result<std::int64_t> initial_value(std::string_view initial, std::span<const std::int64_t> values,
                                   const SymbolLookup& lookup) {
  if (values.empty()) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("the tunable with the default '{}' lists no values", initial),
                "operator/kernel");
  }
  if (initial.empty()) return values.front();
  OPFORGE_ASSIGN(const Expression expression, Expression::parse(initial));
  OPFORGE_ASSIGN(const std::int64_t wanted, expression.evaluate_int(lookup));
  return nearest_listed(values, wanted);
}

Result<std::int64_t> initial_value(const Tunable& tunable, const SymbolLookup& lookup) {
  return initial_value(tunable.initial, tunable.values, lookup);
}

}  // namespace opforge
