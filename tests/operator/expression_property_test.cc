// Random expressions against an evaluation of their trees that shares no code with the parser or
// the evaluator: integers in
// __int128 with a range check after every step, floats in double.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>

#include "operator/expression.hpp"

namespace opforge {
namespace {

using Wide = __int128;
constexpr Wide kMost = (Wide{1} << 63) - 1, kLeast = -(Wide{1} << 63);

struct Tree {
  std::string op;  // "int", "symbol", "real", or an operator or function
  std::string leaf;
  std::vector<std::unique_ptr<Tree>> sides;
};

struct Number {
  bool is_float = false;
  Wide integer = 0;
  double number = 0;
  double real() const { return is_float ? number : static_cast<double>(integer); }
};
using Outcome = std::optional<Number>;  // none: an error

Outcome whole(Wide value) {
  if (value > kMost || value < kLeast) return std::nullopt;
  return Number{.integer = value};
}
Outcome real(double value) { return Number{.is_float = true, .number = value}; }

Outcome binary(const std::string& op, const Number& a, const Number& b) {
  if (op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">=") {
    const bool floats = a.is_float || b.is_float;
    const bool less = floats ? a.real() < b.real() : a.integer < b.integer;
    const bool more = floats ? a.real() > b.real() : a.integer > b.integer;
    const bool same = floats ? a.real() == b.real() : a.integer == b.integer;
    if (op == "==") return whole(same);
    if (op == "!=") return whole(!same);
    if (op == "<") return whole(less);
    if (op == ">") return whole(more);
    return whole(same || (op == "<=" ? less : more));
  }
  if (a.is_float || b.is_float) {
    if (op == "+") return real(a.real() + b.real());
    if (op == "-") return real(a.real() - b.real());
    if (op == "*") return real(a.real() * b.real());
    if (op == "/") return real(a.real() / b.real());
    return std::nullopt;
  }
  if (op == "+") return whole(a.integer + b.integer);
  if (op == "-") return whole(a.integer - b.integer);
  if (op == "*") return whole(a.integer * b.integer);
  if (b.integer == 0) return std::nullopt;
  return whole(op == "/" ? a.integer / b.integer : a.integer % b.integer);
}

// Rounds the quotient up through the remainder of a floor division.
Outcome ceil_div(Wide a, Wide b) {
  if (b == 0) return std::nullopt;
  if (b < 0) {
    a = -a;
    b = -b;
  }
  const Wide rest = ((a % b) + b) % b;
  return whole(rest == 0 ? a / b : (a - rest) / b + 1);
}

Outcome function(const std::string& name, const std::vector<Number>& a) {
  const bool floats = a[0].is_float || (a.size() > 1 && a[1].is_float);
  if (name == "min" || name == "max") {
    if (!floats)
      return whole(name == "min" ? std::min(a[0].integer, a[1].integer)
                                 : std::max(a[0].integer, a[1].integer));
    const double x = a[0].real(), y = a[1].real();
    if (std::isnan(x) || std::isnan(y)) return real(std::nan(""));
    return real(name == "min" ? std::fmin(x, y) : std::fmax(x, y));
  }
  if (name == "abs")
    return floats ? real(std::fabs(a[0].number))
                  : whole(a[0].integer < 0 ? -a[0].integer : a[0].integer);
  if (name == "float") return real(a[0].real());
  if (floats) return std::nullopt;
  if (name == "ceil_div") return ceil_div(a[0].integer, a[1].integer);
  if (name == "round_up") {
    if (a[1].integer <= 0) return std::nullopt;
    const Outcome count = ceil_div(a[0].integer, a[1].integer);
    return count ? whole(count->integer * a[1].integer) : count;
  }
  if (a[0].integer < 0) return std::nullopt;
  Wide power = 1;
  while (power < a[0].integer) power *= 2;
  return whole(power);
}

struct Oracle {
  const ValueMap& symbols;

  Outcome operator()(const Tree& tree) const {
    if (tree.op == "int") return whole(std::stoll(tree.leaf));
    if (tree.op == "real") return real(std::stod(tree.leaf));
    if (tree.op == "symbol") {
      const Value& value = symbols.at(tree.leaf);
      if (const auto* number = std::get_if<double>(&value)) return real(*number);
      return whole(std::get<std::int64_t>(value));
    }
    const Outcome first = (*this)(*tree.sides[0]);
    if (!first) return first;
    if (tree.op == "?:" || tree.op == "&&" || tree.op == "||" || tree.op == "!") {
      if (first->is_float) return std::nullopt;
      const bool truth = first->integer != 0;
      if (tree.op == "!") return whole(!truth);
      if (tree.op == "?:") return (*this)(*tree.sides[truth ? 1 : 2]);
      if (truth == (tree.op == "||")) return whole(truth);
      const Outcome second = (*this)(*tree.sides[1]);
      if (!second || second->is_float) return std::nullopt;
      return whole(second->integer != 0);
    }
    if (tree.op == "neg") return first->is_float ? real(-first->number) : whole(-first->integer);
    std::vector<Number> values{*first};
    for (std::size_t i = 1; i < tree.sides.size(); ++i) {
      const Outcome next = (*this)(*tree.sides[i]);
      if (!next) return next;
      values.push_back(*next);
    }
    const bool is_name = std::isalpha(static_cast<unsigned char>(tree.op[0])) != 0;
    return is_name ? function(tree.op, values) : binary(tree.op, values[0], values[1]);
  }
};

// With brackets only where precedence or associativity needs them, so that both are tested.
int level(const Tree& tree) {
  if (tree.op == "?:") return 0;
  if (tree.op == "||") return 1;
  if (tree.op == "&&") return 2;
  if (tree.op == "+" || tree.op == "-") return 4;
  if (tree.op == "*" || tree.op == "/" || tree.op == "%") return 5;
  if (tree.op == "neg" || tree.op == "!") return 6;
  if (tree.sides.empty() || std::isalpha(static_cast<unsigned char>(tree.op[0]))) return 7;
  return 3;
}

std::string print(const Tree& tree, int least = 0) {
  const int own = level(tree);
  std::string text;
  if (tree.sides.empty()) {
    text = tree.leaf;
  } else if (own == 0) {
    text = print(*tree.sides[0], 1) + "?" + print(*tree.sides[1]) + ":" + print(*tree.sides[2]);
  } else if (own == 6) {
    text = (tree.op == "neg" ? "- " : "!") + print(*tree.sides[0], 6);
  } else if (own == 7) {
    text = tree.op + "(";
    for (std::size_t i = 0; i < tree.sides.size(); ++i)
      text += (i ? ", " : "") + print(*tree.sides[i]);
    text += ")";
  } else {
    text = print(*tree.sides[0], own == 3 ? 4 : own) + tree.op + print(*tree.sides[1], own + 1);
  }
  return own < least ? "(" + text + ")" : text;
}

std::unique_ptr<Tree> grow(std::mt19937_64& random, int depth) {
  const auto pick = [&](std::initializer_list<const char*> from) {
    return std::string(from.begin()[random() % from.size()]);
  };
  auto tree = std::make_unique<Tree>();
  if (depth == 0 || random() % 5 == 0) {
    tree->op = pick({"int", "symbol", "symbol", "symbol", "real"});
    if (tree->op == "int")
      tree->leaf = pick({"0", "1", "2", "7", "32", "1000", "4294967296", "9223372036854775807"});
    if (tree->op == "real") tree->leaf = pick({"0.5", "2.0", "1e9", "1e-6"});
    if (tree->op == "symbol") tree->leaf = pick({"A", "B", "C", "D", "x.dim0", "eps"});
    return tree;
  }
  tree->op = pick({"+",   "-",   "*",   "/",     "%",        "==",       "!=",       "<",
                   "<=",  ">",   ">=",  "&&",    "||",       "?:",       "neg",      "!",
                   "min", "max", "abs", "float", "ceil_div", "round_up", "next_pow2"});
  std::size_t sides = 2;
  if (tree->op == "?:") sides = 3;
  if (tree->op == "neg" || tree->op == "!" || tree->op == "abs" || tree->op == "float" ||
      tree->op == "next_pow2")
    sides = 1;
  for (std::size_t i = 0; i < sides; ++i) tree->sides.push_back(grow(random, depth - 1));
  return tree;
}

// A part of constants alone that fails is a parse error, whether or not it would be reached.
bool constant_failure(const Tree& tree, const Oracle& oracle, bool& is_constant) {
  is_constant = tree.op != "symbol" && tree.op != "?:" && tree.op != "&&" && tree.op != "||";
  bool failed = false;
  for (const auto& side : tree.sides) {
    bool side_constant = false;
    failed = constant_failure(*side, oracle, side_constant) || failed;
    is_constant = is_constant && side_constant;
  }
  return failed || (is_constant && !oracle(tree));
}

TEST(ExpressionProperty, AgreesWithAnIndependentEvaluation) {
  EXPECT_TRUE(rc::check("random trees", [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::int64_t extremes[] = {
        0, 1, -1, 2, 3, 17, 4096, -4096, std::int64_t{1} << 62, INT64_MAX, INT64_MIN};
    ValueMap symbols{{"eps", 0.25}};
    for (const char* name : {"A", "B", "C", "D", "x.dim0"}) {
      symbols[name] =
          random() % 2 ? extremes[random() % 11] : static_cast<std::int64_t>(random() % 5000);
    }
    const Oracle oracle{symbols};
    for (int i = 0; i < 20; ++i) {
      const auto tree = grow(random, 1 + static_cast<int>(random() % 5));
      const std::string text = print(*tree);
      RC_LOG() << text << "\n";
      bool is_constant = false;
      const bool refused = constant_failure(*tree, oracle, is_constant);
      const auto parsed = Expression::parse(text);
      RC_ASSERT(parsed.has_value() == !refused);
      if (!parsed) continue;
      const Outcome expected = oracle(*tree);
      const auto value = parsed->evaluate(lookup_in(symbols));
      RC_ASSERT(value.has_value() == expected.has_value());
      if (!value) continue;
      RC_ASSERT((value->index() == 1) == expected->is_float);
      if (!expected->is_float) {
        RC_ASSERT(Wide{std::get<std::int64_t>(*value)} == expected->integer);
      } else {
        const double got = std::get<double>(*value);
        RC_ASSERT(got == expected->number || (std::isnan(got) && std::isnan(expected->number)));
      }
    }
  }));
}

TEST(ExpressionProperty, AnyBytesGiveAValueOrAnError) {
  const ValueMap symbols{{"M", std::int64_t{8}},
                         {"x.dim0", std::int64_t{-1}},
                         {"eps", 0.5},
                         {"T", std::string("f32")}};
  const std::string_view pieces[] = {"M",
                                     "x.dim0",
                                     "eps",
                                     "T",
                                     "(",
                                     ")",
                                     "?",
                                     ":",
                                     "+",
                                     "-",
                                     "*",
                                     "/",
                                     "%",
                                     "&&",
                                     "||",
                                     "!",
                                     "==",
                                     "<",
                                     ">=",
                                     ",",
                                     "'",
                                     "'f32'",
                                     "min(",
                                     "ceil_div(",
                                     "int(",
                                     "sqrt(",
                                     "0",
                                     "1",
                                     "9223372036854775808",
                                     "1e300",
                                     ".",
                                     "e",
                                     " ",
                                     "\t",
                                     "=",
                                     "&",
                                     "|"};
  EXPECT_TRUE(rc::check("random bytes and pieces", [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 30; ++i) {
      std::string text;
      const std::size_t length = random() % 24;
      for (std::size_t k = 0; k < length; ++k) {
        if (random() % 8 == 0) {
          text += static_cast<char>(random());
        } else {
          text += pieces[random() % std::size(pieces)];
        }
      }
      const auto parsed = Expression::parse(text);
      if (!parsed) {
        RC_ASSERT(parsed.error().code == Code::kInvalidDeclaration);
        RC_ASSERT(parsed.error().message.find("column ") != std::string::npos);
        continue;
      }
      const auto value = parsed->evaluate(lookup_in(symbols));
      if (!value) RC_ASSERT(!value.error().message.empty());
    }
  }));
}

}  // namespace
}  // namespace opforge
