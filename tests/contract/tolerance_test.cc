#include "contract/tolerance.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace opforge {
namespace {

TEST(Tolerance, LimitAddsUlpsOfTheOutputAndTheCondition) {
  const Bound bound{0.5, 4};
  // 0.5 ulp of bf16 at 1 is 2^-8; 4 eps(fp32) * 1000 is 4000 * 2^-23.
  EXPECT_DOUBLE_EQ(bound.limit(1.0, 1000.0, DType::kBF16),
                   std::ldexp(1.0, -8) + 4000 * std::ldexp(1.0, -23));
  // A sum that cancels to 0 is judged by what went in.
  EXPECT_NEAR(bound.limit(0.0, 1e6, DType::kF32), 4e6 * std::ldexp(1.0, -23), 1e-12);
  EXPECT_EQ((Bound{0.5, 0}).limit(1.0, INFINITY, DType::kF32), std::ldexp(1.0, -24));
}

TEST(Tolerance, DeterministicIsJudgedAsHighPrecision) {
  const Tolerances tolerances{{2, 8}, {0.5, 1}};
  EXPECT_EQ(tolerances.at(Tier::kFast).a, 2);
  EXPECT_EQ(tolerances.at(Tier::kHighPrecision).a, 0.5);
  EXPECT_EQ(tolerances.at(Tier::kDeterministic).a, 0.5);
}

}  // namespace
}  // namespace opforge
