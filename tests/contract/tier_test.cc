#include "contract/tier.hpp"

#include <gtest/gtest.h>

namespace opforge {
namespace {

TEST(Tier, AStricterTierSatisfiesALooserContract) {
  EXPECT_TRUE(satisfies(Tier::kDeterministic, Tier::kFast));
  EXPECT_TRUE(satisfies(Tier::kDeterministic, Tier::kHighPrecision));
  EXPECT_TRUE(satisfies(Tier::kHighPrecision, Tier::kFast));
  EXPECT_FALSE(satisfies(Tier::kFast, Tier::kHighPrecision));
  EXPECT_FALSE(satisfies(Tier::kHighPrecision, Tier::kDeterministic));
  for (Tier tier : kAllTiers) EXPECT_TRUE(satisfies(tier, tier));
}

TEST(Tier, NamesRoundTripInAnyCase) {
  for (Tier tier : kAllTiers) EXPECT_EQ(*parse_tier(tier_name(tier)), tier);
  EXPECT_EQ(*parse_tier("deterministic"), Tier::kDeterministic);
  const auto unknown = parse_tier("EXACT");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("EXACT"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("HIGH_PRECISION"), std::string::npos);
}

}  // namespace
}  // namespace opforge
