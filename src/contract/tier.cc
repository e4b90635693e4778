#include "contract/tier.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace opforge {

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::kFast:
      return "FAST";
    case Tier::kHighPrecision:
      return "HIGH_PRECISION";
    case Tier::kDeterministic:
      return "DETERMINISTIC";
  }
  return "unknown";
}

Result<Tier> parse_tier(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (Tier tier : kAllTiers) {
    if (tier_name(tier) == upper) return tier;
  }
  return fail(
      Code::kInvalidArgument,
      "unknown contract '" + std::string(name) + "'; valid: FAST, HIGH_PRECISION, DETERMINISTIC",
      "contract/tier");
}

}  // namespace opforge
