#include "tensor/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace opforge {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
T store(DType dtype, double value) {
  T bits{};
  store_from_double(&bits, dtype, value);
  return bits;
}

template <class T>
double load(DType dtype, T bits) {
  return load_as_double(&bits, dtype);
}

// The value of a small float by the definition of its format, worked out in long double.
double by_definition(unsigned bits, int width, int mantissa, int bias) {
  const int exponent_bits = width - 1 - mantissa;
  const unsigned fraction = bits & ((1u << mantissa) - 1),
                 exponent = (bits >> mantissa) & ((1u << exponent_bits) - 1);
  const double sign = (bits >> (width - 1)) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::pow(2.0, 1 - bias) * (fraction / std::pow(2.0, mantissa));
  return sign * std::pow(2.0, static_cast<int>(exponent) - bias) *
         (1 + fraction / std::pow(2.0, mantissa));
}

struct SmallFormat {
  DType dtype;
  int width, mantissa, bias;
  unsigned first_not_finite;  // magnitude bits
  bool has_infinity;
};

const SmallFormat kSmall[] = {{DType::kF16, 16, 10, 15, 0x7c00, true},
                              {DType::kBF16, 16, 7, 127, 0x7f80, true},
                              {DType::kF8E4M3, 8, 3, 7, 0x7f, false},
                              {DType::kF8E5M2, 8, 2, 15, 0x7c, true}};

unsigned store_bits(const SmallFormat& format, double value) {
  return format.width == 16 ? store<std::uint16_t>(format.dtype, value)
                            : store<std::uint8_t>(format.dtype, value);
}

double load_bits(const SmallFormat& format, unsigned bits) {
  return format.width == 16 ? load(format.dtype, static_cast<std::uint16_t>(bits))
                            : load(format.dtype, static_cast<std::uint8_t>(bits));
}

TEST(DType, EveryPatternOfASmallFloatHasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (const auto& format : kSmall) {
    const unsigned sign = 1u << (format.width - 1);
    for (unsigned bits = 0; bits < 2 * sign; ++bits) {
      const unsigned magnitude = bits & (sign - 1);
      const double value = load_bits(format, bits);
      if (magnitude < format.first_not_finite) {
        ASSERT_EQ(value, by_definition(bits, format.width, format.mantissa, format.bias)) << bits;
        ASSERT_EQ(std::signbit(value), (bits & sign) != 0) << bits;
        ASSERT_EQ(store_bits(format, value), bits);
      } else if (format.has_infinity && magnitude == format.first_not_finite) {
        ASSERT_EQ(value, (bits & sign) != 0 ? -kInf : kInf);
        ASSERT_EQ(store_bits(format, value), bits);
      } else {
        ASSERT_TRUE(std::isnan(value)) << bits;
        ASSERT_TRUE(std::isnan(load_bits(format, store_bits(format, value)))) << bits;
      }
    }
  }
}

// Between any two neighbours: below the middle goes down, above goes up, the middle to the one with
// an even last bit.
TEST(DType, RoundsToNearestEvenBetweenAllNeighbours) {
  for (const auto& format : kSmall) {
    const unsigned sign = 1u << (format.width - 1);
    for (unsigned bits = 0; bits + 1 < format.first_not_finite; ++bits) {
      const double low = load_bits(format, bits), high = load_bits(format, bits + 1);
      const double middle = (low + high) / 2;  // exact: one bit more than the format has
      const unsigned even = (bits & 1) == 0 ? bits : bits + 1;
      ASSERT_EQ(store_bits(format, middle), even) << bits;
      ASSERT_EQ(store_bits(format, std::nextafter(middle, -kInf)), bits);
      ASSERT_EQ(store_bits(format, std::nextafter(middle, kInf)), bits + 1);
      ASSERT_EQ(store_bits(format, -middle), even | sign);
    }
  }
}

TEST(DType, OverflowStartsHalfAnUlpAboveTheLargest) {
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, 65519.999), 0x7bff);
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, 65520.0),
            0x7c00);  // the tie goes to the even side: infinity
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, -1e300), 0xfc00);
  EXPECT_EQ(store<std::uint16_t>(DType::kBF16, 3.3961775292304601e38), 0x7f80);
  EXPECT_EQ(store<std::uint16_t>(DType::kBF16, 3.396e38), 0x7f7f);
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E5M2, 61440.0), 0x7c);
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E5M2, 61439.0), 0x7b);
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E4M3, 464.0), 0x7e);  // 448 is the even one
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E4M3, 464.1), 0x7f);  // no infinity: NaN
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E4M3, -kInf), 0xff);
}

TEST(DType, SmallestSubnormals) {
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, std::ldexp(1.0, -24)), 1);
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, std::ldexp(1.0, -25)), 0);  // tie to even zero
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, std::nextafter(std::ldexp(1.0, -25), 1)), 1);
  EXPECT_EQ(store<std::uint16_t>(DType::kBF16, std::ldexp(1.0, -133)), 1);
  EXPECT_EQ(store<std::uint16_t>(DType::kBF16, -std::numeric_limits<double>::denorm_min()), 0x8000);
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E4M3, std::ldexp(1.0, -9)), 1);
  EXPECT_EQ(store<std::uint8_t>(DType::kF8E5M2, std::ldexp(1.0, -16)), 1);
}

// Rounding twice (through float) is wrong for doubles just beside a half-way point of the small
// format.
TEST(DType, RoundsOnceFromDouble) {
  const double just_above =
      1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);  // float drops the last term
  EXPECT_EQ(store<std::uint16_t>(DType::kF16, just_above), 0x3c01);
  EXPECT_EQ(store<std::uint16_t>(DType::kBF16, 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -45)),
            0x3f81);
}

TEST(DType, FloatsAndDoubles) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(load(DType::kF32, bits), static_cast<double>(value));
    ASSERT_EQ(store<std::uint32_t>(DType::kF32, value), bits);
  }
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(store<std::uint32_t>(DType::kF32, kNaN))));
  EXPECT_EQ(store<std::uint32_t>(DType::kF32, 1e300), 0x7f800000u);
  EXPECT_EQ(store<double>(DType::kF64, 0.1), 0.1);
}

TEST(DType, IntegersRoundToEvenAndSaturate) {
  EXPECT_EQ(store<std::int8_t>(DType::kI8, 2.5), 2);
  EXPECT_EQ(store<std::int8_t>(DType::kI8, 3.5), 4);
  EXPECT_EQ(store<std::int8_t>(DType::kI8, -1000), -128);
  EXPECT_EQ(store<std::uint8_t>(DType::kU8, -3), 0);
  EXPECT_EQ(store<std::uint8_t>(DType::kU8, 255.6), 255);
  EXPECT_EQ(store<std::int32_t>(DType::kI32, 3e9), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(store<std::int64_t>(DType::kI64, 1e19), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(store<std::int64_t>(DType::kI64, -kInf), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(store<std::uint64_t>(DType::kU64, kInf), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(store<std::int32_t>(DType::kI32, kNaN), 0);
  EXPECT_EQ(store<std::uint8_t>(DType::kBool, 0.25), 1);
  EXPECT_EQ(load(DType::kI32, std::int32_t{-5}), -5.0);
  EXPECT_EQ(load(DType::kU32, std::uint32_t{4000000000u}), 4e9);
}

TEST(DType, UlpIsTheSpacingOfTheBinade) {
  EXPECT_EQ(ulp_at(1.0, DType::kF32), std::ldexp(1.0, -23));
  EXPECT_EQ(ulp_at(-1.5, DType::kF32), std::ldexp(1.0, -23));
  EXPECT_EQ(ulp_at(2.0, DType::kF32), std::ldexp(1.0, -22));
  EXPECT_EQ(ulp_at(std::nextafter(2.0, 0), DType::kF32), std::ldexp(1.0, -23));
  EXPECT_EQ(ulp_at(1.0, DType::kF16), 1.0 / 1024);
  EXPECT_EQ(ulp_at(1.0, DType::kBF16), 1.0 / 128);
  EXPECT_EQ(ulp_at(300.0, DType::kBF16), 2.0);
  EXPECT_EQ(ulp_at(0.0, DType::kF16), std::ldexp(1.0, -24));
  EXPECT_EQ(ulp_at(1e-30, DType::kF16), std::ldexp(1.0, -24));
  EXPECT_EQ(ulp_at(0.0, DType::kF64), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(ulp_at(kInf, DType::kF16), 32.0);
  EXPECT_EQ(ulp_at(1e30, DType::kF8E4M3), 32.0);
}

TEST(DType, ConstantsOfEachFormat) {
  EXPECT_EQ(epsilon(DType::kF32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(epsilon(DType::kF64), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(epsilon(DType::kF16), std::ldexp(1.0, -10));
  EXPECT_EQ(epsilon(DType::kBF16), std::ldexp(1.0, -7));
  EXPECT_EQ(largest_finite(DType::kF16), 65504);
  EXPECT_EQ(largest_finite(DType::kF8E4M3), 448);
  EXPECT_EQ(largest_finite(DType::kF8E5M2), 57344);
  EXPECT_EQ(largest_finite(DType::kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(largest_finite(DType::kBF16), 255 * std::ldexp(1.0, 120));
}

TEST(DType, NamesRoundTripAndUnknownOnesListTheValid) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto parsed = parse_dtype(dtype_name(dtype));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, dtype);
  }
  const auto unknown = parse_dtype("float23");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("float23"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace opforge
