#include "operator/expression.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace opforge {
namespace {

const ValueMap kSymbols{{"M", std::int64_t{4096}},
                        {"N", std::int64_t{1000}},
                        {"ZERO", std::int64_t{0}},
                        {"HUGE", std::int64_t{1} << 62},
                        {"eps", 0.5},
                        {"T", std::string("bf16")},
                        {"x.align", std::int64_t{16}},
                        {"device.sm_count", std::int64_t{132}},
                        {"NAN", std::nan("")}};

Result<Value> evaluate(std::string_view text) {
  OPFORGE_ASSIGN(const Expression expression, Expression::parse(text));
  return expression.evaluate(lookup_in(kSymbols));
}

struct Row {
  const char* text;
  Value expected;
};

TEST(Expression, Values) {
  using I = std::int64_t;
  const Row rows[] = {
      {"7", I{7}},
      {"1 + 2 * 3", I{7}},
      {"(1 + 2) * 3", I{9}},
      {"10 - 4 - 3", I{3}},
      {"-7 / 2", I{-3}},
      {"-7 % 3", I{-1}},
      {"2 - -2", I{4}},
      {"!0 + !5", I{1}},
      {"(1 < 2) == 0 || 1", I{1}},
      {"M / 3", I{1365}},
      {"ceil_div(N, 256)", I{4}},
      {"ceil_div(-7, 2)", I{-3}},
      {"ceil_div(7, -2)", I{-3}},
      {"ceil_div(-7, -2)", I{4}},
      {"round_up(1000, 128)", I{1024}},
      {"next_pow2(1000)", I{1024}},
      {"next_pow2(1024)", I{1024}},
      {"next_pow2(0)", I{1}},
      {"next_pow2(4611686018427387904)", I{4611686018427387904}},
      {"log2(1)", I{0}},
      {"log2(1023)", I{9}},
      {"log2(9223372036854775807)", I{62}},
      {"min(3, 1, 2)", I{1}},
      {"max(N, M, 1)", I{4096}},
      {"abs(-5)", I{5}},
      {"abs(-0.25)", 0.25},
      {"int(2.9)", I{2}},
      {"int(-2.9)", I{-2}},
      {"float(3)", 3.0},
      {"sqrt(2.25)", 1.5},
      {"rsqrt(4)", 0.5},
      {"1 / 4.0", 0.25},
      {"eps * 2", 1.0},
      {"eps < 1", I{1}},
      {"1e3", 1000.0},
      {".5 + 1.", 1.5},
      {"1.0 / ZERO", std::numeric_limits<double>::infinity()},
      {"-9223372036854775808", std::numeric_limits<I>::min()},
      {"9223372036854775807", std::numeric_limits<I>::max()},
      {"T == 'bf16' ? 8 : 4", I{8}},
      {"T != 'f32' && x.align >= 16", I{1}},
      {"M > 0 ? N > 0 ? 1 : 2 : 3", I{1}},
      {"ZERO ? 1 : ZERO ? 2 : 3", I{3}},
      {"5 || 0", I{1}},
      {"5 && 7", I{1}},
      {"device.sm_count * 2", I{264}},
      {"  M\t+\n1 ", I{4097}},
      {"'text'", std::string("text")},
  };
  for (const Row& row : rows) {
    const auto value = evaluate(row.text);
    ASSERT_TRUE(value) << row.text << ": " << value.error().message;
    EXPECT_EQ(*value, row.expected) << row.text << " gave " << to_string(*value);
  }
}

TEST(Expression, NaNIsKeptByMinAndMaxWhereverItStands) {
  for (const char* text : {"min(NAN, 1)", "min(1, NAN)", "max(1, 2, NAN)", "max(NAN, 2, 1.0)"}) {
    const auto value = evaluate(text);
    ASSERT_TRUE(value) << text;
    EXPECT_TRUE(std::isnan(std::get<double>(*value))) << text;
  }
}

TEST(Expression, OnlyTheNeededSideIsEvaluated) {
  EXPECT_EQ(*evaluate("ZERO && 1 / ZERO"), Value{std::int64_t{0}});
  EXPECT_EQ(*evaluate("M || 1 / ZERO"), Value{std::int64_t{1}});
  EXPECT_EQ(*evaluate("M ? 1 : 1 / ZERO"), Value{std::int64_t{1}});
  EXPECT_EQ(*evaluate("ZERO ? unknown : 2"), Value{std::int64_t{2}});
  EXPECT_FALSE(evaluate("M && 1 / ZERO"));
}

struct BadRow {
  const char* text;
  Code code;
  const char* part;  // of the message
};

TEST(Expression, ErrorsNameColumnAndCause) {
  const Code declaration = Code::kInvalidDeclaration, argument = Code::kInvalidArgument;
  const BadRow rows[] = {
      {"", declaration,
       "column 1: expected a number, a text, a symbol, a function or '(', found the end"},
      {"1 +", declaration, "column 4: expected a number"},
      {"(1 + 2", declaration, "column 7: expected ')', found the end"},
      {"1 2", declaration, "column 3: expected an operator or the end, found '2'"},
      {"M ? 1", declaration, "column 6: expected ':' of ?:, found the end"},
      {"a < b < c", declaration, "column 7: comparisons do not chain"},
      {"12abc", declaration, "column 3: expected an operator after the number 12, found 'a'"},
      {"9223372036854775808", declaration, "column 1: the number is outside 64 bits"},
      {"1e999", declaration, "column 1: the number is outside 64 bits"},
      {"'open", declaration, "column 1: the text has no closing quote"},
      {"x.", declaration, "column 3: expected a name after '.'"},
      {"cdiv(1, 2)", declaration, "column 1: 'cdiv' is not a function; the functions are ceil_div"},
      {"ceil_div(1)", declaration, "ceil_div takes 2 argument(s), not 1"},
      {"min(1)", declaration, "min takes at least 2 argument(s), not 1"},
      {"max()", declaration, "max takes at least 2 argument(s), not 0"},
      {"1 / 0", declaration, "column 3: division by zero"},
      {"4 % (2 - 2)", declaration, "column 3: division by zero"},
      {"9223372036854775807 + 1", declaration, "column 21: integer overflow"},
      {"$", declaration, "found '$'"},
      {"1 = 1", declaration, "found '='"},
      {"\x01", declaration, "found '\\x01'"},
      {"Q + 1", declaration, "column 1: 'Q' is not a symbol that is known here"},
      {"M / ZERO", argument, "column 3: division by zero"},
      {"M % ZERO", argument, "division by zero"},
      {"ceil_div(M, ZERO)", argument, "column 1: division by zero"},
      {"round_up(M, ZERO)", argument, "division by zero"},
      {"round_up(M, -N)", argument, "positive second argument"},
      {"HUGE * 4", argument, "integer overflow"},
      {"HUGE + HUGE", argument, "integer overflow"},
      {"-HUGE - HUGE - 1", argument, "integer overflow"},
      {"next_pow2(HUGE + 1)", argument, "integer overflow"},
      {"next_pow2(-M)", argument, "at least 0"},
      {"log2(ZERO)", argument, "above 0"},
      {"sqrt(-M)", argument, "negative"},
      {"int(1e30)", declaration, "outside 64 bits"},
      {"int(NAN)", argument, "outside 64 bits"},
      {"T + 1", argument, "texts only compare"},
      {"T < 'f32'", argument, "texts only compare"},
      {"T == 1", argument, "a text is compared with a number"},
      {"eps ? 1 : 2", argument, "an integer is needed"},
      {"T && 1", argument, "an integer is needed"},
      {"!eps", argument, "an integer is needed"},
      {"eps % 2", argument, "% needs integers"},
      {"log2(eps)", argument, "an integer is needed"},
  };
  for (const BadRow& row : rows) {
    const auto value = evaluate(row.text);
    ASSERT_FALSE(value) << row.text << " gave " << to_string(*value);
    EXPECT_EQ(value.error().code, row.code) << row.text;
    EXPECT_NE(value.error().message.find(row.part), std::string::npos)
        << row.text << ": " << value.error().message;
    EXPECT_NE(value.error().message.find("expression '"), std::string::npos) << row.text;
  }
}

TEST(Expression, TypedEvaluation) {
  const auto lookup = lookup_in(kSymbols);
  EXPECT_EQ(*Expression::parse("M + 1")->evaluate_int(lookup), 4097);
  EXPECT_EQ(*Expression::parse("M")->evaluate_float(lookup), 4096.0);
  EXPECT_EQ(*Expression::parse("M == 4096")->evaluate_bool(lookup), true);
  const auto as_int = Expression::parse("eps")->evaluate_int(lookup);
  ASSERT_FALSE(as_int);
  EXPECT_NE(as_int.error().message.find("an integer is needed but it gives the float 0.5"),
            std::string::npos);
  const auto as_float = Expression::parse("T")->evaluate_float(lookup);
  ASSERT_FALSE(as_float);
  EXPECT_NE(as_float.error().message.find("the text bf16"), std::string::npos);
  EXPECT_FALSE(Expression::parse("eps")->evaluate_bool(lookup));
  EXPECT_EQ(*Expression().evaluate_int({}), 0);
  EXPECT_FALSE(Expression::parse("M")->evaluate({}));
}

TEST(Expression, SymbolsAreSortedAndUnique) {
  const auto expression = Expression::parse("N + x.align * N + ceil_div(M, N)");
  EXPECT_EQ(expression->symbols(), (std::vector<std::string>{"M", "N", "x.align"}));
  EXPECT_EQ(expression->text(), "N + x.align * N + ceil_div(M, N)");
}

std::string repeat(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Expression, DeepNestingIsRefusedAndNotOverflowed) {
  EXPECT_TRUE(Expression::parse(repeat("(", 90) + "1" + repeat(")", 90)));
  const std::string deep[] = {repeat("(", 30000) + "1" + repeat(")", 30000),
                              repeat("-", 30000) + "M",
                              repeat("!", 60000) + "M",
                              repeat("1 ? 2 : ", 8000) + "3",
                              repeat("M ? ", 9000) + "3",
                              repeat("abs(", 15000) + "M"};
  for (const std::string& text : deep) {
    const auto parsed = Expression::parse(text);
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().message.find("nested deeper than 100 levels"), std::string::npos);
    EXPECT_LT(parsed.error().message.size(), 400u);
  }
}

TEST(Expression, LongButFlatIsFine) {
  const auto sum = Expression::parse("M" + repeat("+1", 30000));
  ASSERT_TRUE(sum);
  EXPECT_EQ(*sum->evaluate_int(lookup_in(kSymbols)), 4096 + 30000);
  const auto wide = Expression::parse("min(M" + repeat(",M", 20000) + ")");
  ASSERT_TRUE(wide);
  EXPECT_EQ(*wide->evaluate_int(lookup_in(kSymbols)), 4096);
  const auto lazy = Expression::parse("ZERO" + repeat("||ZERO", 9000));
  ASSERT_TRUE(lazy);
  EXPECT_EQ(*lazy->evaluate_int(lookup_in(kSymbols)), 0);
  const auto too_long = Expression::parse("M" + repeat("+1", 40000));
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("more than 65535"), std::string::npos);
}

TEST(Expression, Identifiers) {
  EXPECT_TRUE(is_identifier("_a9"));
  for (const char* text : {"", "9a", "a.b", "a-b", "a b", "\xc3\xa4"}) {
    EXPECT_FALSE(is_identifier(text)) << text;
  }
}

}  // namespace
}  // namespace opforge
