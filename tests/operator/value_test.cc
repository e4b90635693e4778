#include "operator/value.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdlib>

namespace opforge {
namespace {

TEST(Value, TextKeepsIntegersAndFloatsApart) {
  EXPECT_EQ(to_string(Value{std::int64_t{4096}}), "4096");
  EXPECT_EQ(to_string(Value{std::int64_t{-1}}), "-1");
  EXPECT_EQ(to_string(Value{1.0}), "1.0");
  EXPECT_EQ(to_string(Value{-3.0}), "-3.0");
  EXPECT_EQ(to_string(Value{1e-6}), "1e-06");
  EXPECT_EQ(to_string(Value{0.1}), "0.1");
  EXPECT_EQ(to_string(Value{std::string("tanh")}), "tanh");
}

TEST(Value, FloatTextReadsBackToTheSameBits) {
  EXPECT_TRUE(rc::check([](std::uint64_t bits) {
    double number = 0;
    static_assert(sizeof(number) == sizeof(bits));
    __builtin_memcpy(&number, &bits, sizeof(bits));
    RC_PRE(std::isfinite(number));
    RC_ASSERT(std::strtod(to_string(Value{number}).c_str(), nullptr) == number);
  }));
}

}  // namespace
}  // namespace opforge
