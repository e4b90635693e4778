// Numeric contracts: DETERMINISTIC > HIGH_PRECISION > FAST.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace opforge {

// A kernel offers a tier; a caller asks for a contract. Larger is stricter; a stricter tier keeps every promise of a
// looser one.
enum class Tier : std::uint8_t { kFast = 0, kHighPrecision = 1, kDeterministic = 2 };
using Contract = Tier;
inline constexpr std::array kAllTiers{Tier::kFast, Tier::kHighPrecision, Tier::kDeterministic};

std::string_view tier_name(Tier tier);             // "FAST", "HIGH_PRECISION", "DETERMINISTIC"
Result<Tier> parse_tier(std::string_view name);    // case-insensitive; kInvalidArgument listing the valid names
constexpr bool satisfies(Tier offered, Contract asked) { return offered >= asked; }

}  // namespace opforge
