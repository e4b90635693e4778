// Verdicts on single elements, with ulps and bounds worked out by hand.
#include "verify/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace opforge {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Compare, UlpsAndShareByHand) {
  // bf16 at 1: ulp 2^-7. One ulp off against a bound of 2 ulps is a share of a half.
  const ElementError one = compare_element(1 + 0x1p-7, 1, 1, DType::kBF16, {2, 0});
  EXPECT_TRUE(one.ok);
  EXPECT_DOUBLE_EQ(one.ulps, 1);
  EXPECT_DOUBLE_EQ(one.share, 0.5);
  EXPECT_FALSE(compare_element(1 + 3 * 0x1p-7, 1, 1, DType::kBF16, {2, 0}).ok);
}

TEST(Compare, TheConditionWidensTheBoundInFp32Epsilons) {
  // f32, condition 1000, b = 4: limit 4 * 2^-23 * 1000 = 4.77e-4 beside nothing for a = 0.
  EXPECT_TRUE(compare_element(4.7e-4, 0, 1000, DType::kF32, {0, 4}).ok);
  EXPECT_FALSE(compare_element(4.8e-4, 0, 1000, DType::kF32, {0, 4}).ok);
}

TEST(Compare, ExactBoundsAcceptOnlyTheRoundedValue) {
  EXPECT_TRUE(compare_element(0.1f, 0.1, 0.1, DType::kF32, {0.5, 0}).ok);
  EXPECT_FALSE(compare_element(std::nextafter(0.1f, 1.0f), 0.1, 0.1, DType::kF32, {0.5, 0}).ok);
}

TEST(Compare, NaNIsRightOnlyWhereTheReferenceIsNaN) {
  EXPECT_TRUE(compare_element(kNaN, kNaN, 1, DType::kF32, {1, 0}).ok);
  EXPECT_FALSE(compare_element(1, kNaN, 1, DType::kF32, {1, 0}).ok);
  EXPECT_FALSE(compare_element(kNaN, 1, 1, DType::kF32, {1e9, 1e9}).ok);
  EXPECT_FALSE(compare_element(kInf, kNaN, 1, DType::kF32, {1, 0}).ok);
}

TEST(Compare, InfinitiesMustBeEqual) {
  EXPECT_TRUE(compare_element(kInf, kInf, kInf, DType::kF32, {1, 0}).ok);
  EXPECT_FALSE(compare_element(-kInf, kInf, kInf, DType::kF32, {1, 0}).ok);
  EXPECT_FALSE(compare_element(3e38, kInf, kInf, DType::kF32, {1, 1}).ok);
  EXPECT_FALSE(compare_element(kInf, 3e38, 3e38, DType::kF32, {1, 0}).ok);
}

TEST(Compare, OverflowOfTheDtypeIsRight) {
  // 70000 does not fit f16 (largest 65504): infinity is what rounding gives, the largest value is
  // not.
  EXPECT_TRUE(compare_element(kInf, 70000, 70000, DType::kF16, {0.5, 0}).ok);
  EXPECT_FALSE(compare_element(65504, 70000, 70000, DType::kF16, {0.5, 0}).ok);
  EXPECT_FALSE(compare_element(-kInf, 70000, 70000, DType::kF16, {0.5, 0}).ok);
  // 65519 rounds to 65504; a bound of one ulp (32) reaches past the point where rounding gives
  // infinity (65520).
  EXPECT_TRUE(compare_element(65504, 65519, 65519, DType::kF16, {0.5, 0}).ok);
  EXPECT_TRUE(compare_element(kInf, 65519, 65519, DType::kF16, {1, 0}).ok);
  EXPECT_FALSE(compare_element(kInf, 65000, 65000, DType::kF16, {1, 0}).ok);
}

TEST(Compare, AFiniteResultOfInfiniteMagnitudesIsJudgedByItsOwn) {
  EXPECT_TRUE(compare_element(0, 0, kInf, DType::kF32, {1, 1}).ok);
  EXPECT_FALSE(compare_element(1, 0, kInf, DType::kF32, {1, 1}).ok);
  EXPECT_FALSE(compare_element(1, 0, kNaN, DType::kF32, {1, 1}).ok);
}

TEST(Compare, SubnormalsCountInTheirOwnUlps) {
  // The spacing of f16 subnormals is 2^-24.
  const ElementError flushed = compare_element(0, 3 * 0x1p-24, 1, DType::kF16, {0.5, 0});
  EXPECT_FALSE(flushed.ok);
  EXPECT_DOUBLE_EQ(flushed.ulps, 3);
}

TEST(Compare, IntegersMustBeExact) {
  EXPECT_TRUE(compare_element(7, 7, 7, DType::kI32, {100, 100}).ok);
  EXPECT_FALSE(compare_element(8, 7, 7, DType::kI32, {100, 100}).ok);
}

TEST(Compare, ATensorNamesItsWorstElement) {
  ReferenceTensor reference{{2, 3}, {1, 2, 3, 4, 5, 6}, {}, true};
  const std::vector<double> actual{1, 2, 3, 4, 5.5, 6};
  const TensorErrors errors = compare_tensor("y", actual, reference, DType::kF32, {1, 0});
  EXPECT_EQ(errors.wrong, 1);
  EXPECT_EQ(errors.worst_at, (std::vector<std::int64_t>{1, 1}));
  EXPECT_NE(errors.problem.find("y[1,1] is 5.5, expected 5"), std::string::npos) << errors.problem;
}

TEST(Compare, AMissingElementIsWrong) {
  ReferenceTensor reference{{2}, {1, 2}, {}, true};
  const TensorErrors errors =
      compare_tensor("y", std::vector<double>{1}, reference, DType::kF32, {1, 0});
  EXPECT_GT(errors.wrong, 0);
  EXPECT_FALSE(errors.problem.empty());
}

}  // namespace
}  // namespace opforge
