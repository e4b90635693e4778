// Arithmetic of the expression language: checked integers, IEEE floats, equality of texts.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "operator/expression_program.hpp"

namespace opforge {
namespace {

using Kind = ExprScalar::Kind;
constexpr const char* kOverflow = "integer overflow";
constexpr const char* kZeroDivisor = "division by zero";
constexpr const char* kNeedsNumbers = "texts only compare with == and !=";
constexpr const char* kNeedsInteger = "an integer is needed here";
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

void set_int(ExprScalar& to, std::int64_t value) {
  to.kind = Kind::kInt;
  to.integer = value;
}

void set_float(ExprScalar& to, double value) {
  to.kind = Kind::kFloat;
  to.number = value;
}

double as_double(const ExprScalar& value) {
  return value.kind == Kind::kInt ? static_cast<double>(value.integer) : value.number;
}

template <class T>
bool compare(ExprOp op, const T& left, const T& right) {
  switch (op) {
    case ExprOp::kEqual:
      return left == right;
    case ExprOp::kNotEqual:
      return left != right;
    case ExprOp::kLess:
      return left < right;
    case ExprOp::kLessEqual:
      return left <= right;
    case ExprOp::kGreater:
      return left > right;
    default:
      return left >= right;
  }
}

bool is_comparison(ExprOp op) { return op >= ExprOp::kEqual && op <= ExprOp::kGreaterEqual; }

const char* apply_int(ExprOp op, ExprScalar& left, std::int64_t right) {
  std::int64_t result = 0;
  switch (op) {
    case ExprOp::kAdd:
      if (__builtin_add_overflow(left.integer, right, &result)) return kOverflow;
      break;
    case ExprOp::kSubtract:
      if (__builtin_sub_overflow(left.integer, right, &result)) return kOverflow;
      break;
    case ExprOp::kMultiply:
      if (__builtin_mul_overflow(left.integer, right, &result)) return kOverflow;
      break;
    case ExprOp::kDivide:
      if (right == 0) return kZeroDivisor;
      if (left.integer == kLeast && right == -1) return kOverflow;
      result = left.integer / right;
      break;
    default:
      if (right == 0) return kZeroDivisor;
      result = right == -1 ? 0 : left.integer % right;
  }
  left.integer = result;
  return nullptr;
}

const char* ceil_div(ExprScalar& left, std::int64_t right) {
  if (right == 0) return kZeroDivisor;
  if (left.integer == kLeast && right == -1) return kOverflow;
  const std::int64_t quotient = left.integer / right;
  const bool round = left.integer % right != 0 && (left.integer < 0) == (right < 0);
  left.integer = quotient + (round ? 1 : 0);
  return nullptr;
}

const char* round_up(ExprScalar& left, std::int64_t right) {
  if (right <= 0) return right == 0 ? kZeroDivisor : "round_up needs a positive second argument";
  if (const char* why = ceil_div(left, right)) return why;
  return apply_int(ExprOp::kMultiply, left, right);
}

const char* minmax(bool want_min, ExprScalar* arguments, std::size_t count) {
  const bool all_int = std::all_of(arguments, arguments + count,
                                   [](const ExprScalar& a) { return a.kind == Kind::kInt; });
  if (all_int) {
    for (std::size_t i = 1; i < count; ++i) {
      const std::int64_t next = arguments[i].integer;
      arguments[0].integer =
          want_min ? std::min(arguments[0].integer, next) : std::max(arguments[0].integer, next);
    }
    return nullptr;
  }
  double best = as_double(arguments[0]);
  for (std::size_t i = 1; i < count; ++i) {
    const double next = as_double(arguments[i]);
    if (std::isnan(best)) break;  // NaN wins, whatever its place
    if (std::isnan(next) || (want_min ? next < best : next > best)) best = next;
  }
  set_float(arguments[0], best);
  return nullptr;
}

const char* to_int(ExprScalar& value) {
  if (value.kind == Kind::kInt) return nullptr;
  const double truncated = std::trunc(value.number);
  // 2^63 is a double, the largest integer is not.
  if (!(truncated >= -0x1p63 && truncated < 0x1p63)) return "int() of a value outside 64 bits";
  set_int(value, static_cast<std::int64_t>(truncated));
  return nullptr;
}

const char* root(bool reciprocal, ExprScalar& value) {
  const double number = as_double(value);
  if (number < 0) return "root of a negative number";
  const double result = std::sqrt(number);
  set_float(value, reciprocal ? 1.0 / result : result);
  return nullptr;
}

const char* integer_function(ExprFunction function, ExprScalar* arguments) {
  ExprScalar& first = arguments[0];
  switch (function) {
    case ExprFunction::kCeilDiv:
      return ceil_div(first, arguments[1].integer);
    case ExprFunction::kRoundUp:
      return round_up(first, arguments[1].integer);
    case ExprFunction::kLog2:
      if (first.integer <= 0) return "log2 needs an integer above 0";
      first.integer = std::bit_width(static_cast<std::uint64_t>(first.integer)) - 1;
      return nullptr;
    default:
      if (first.integer < 0) return "next_pow2 needs an integer of at least 0";
      if (first.integer > (std::int64_t{1} << 62)) return kOverflow;
      first.integer =
          static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(first.integer)));
      return nullptr;
  }
}

}  // namespace

const char* apply_unary(ExprOp op, ExprScalar& top) {
  if (op == ExprOp::kNegate) {
    if (top.kind == Kind::kText) return kNeedsNumbers;
    if (top.kind == Kind::kFloat) {
      top.number = -top.number;
      return nullptr;
    }
    if (top.integer == kLeast) return kOverflow;
    top.integer = -top.integer;
    return nullptr;
  }
  if (top.kind != Kind::kInt) return kNeedsInteger;
  const bool truth = top.integer != 0;
  top.integer = (op == ExprOp::kNot ? !truth : truth) ? 1 : 0;
  return nullptr;
}

const char* apply_binary(ExprOp op, ExprScalar& left, const ExprScalar& right) {
  if (left.kind == Kind::kText || right.kind == Kind::kText) {
    if (op != ExprOp::kEqual && op != ExprOp::kNotEqual) return kNeedsNumbers;
    if (left.kind != right.kind) return "a text is compared with a number";
    set_int(left, compare(op, left.text, right.text));
    return nullptr;
  }
  if (left.kind == Kind::kInt && right.kind == Kind::kInt) {
    if (!is_comparison(op)) return apply_int(op, left, right.integer);
    left.integer = compare(op, left.integer, right.integer);
    return nullptr;
  }
  const double a = as_double(left), b = as_double(right);
  if (is_comparison(op)) {
    set_int(left, compare(op, a, b));
    return nullptr;
  }
  switch (op) {
    case ExprOp::kAdd:
      set_float(left, a + b);
      return nullptr;
    case ExprOp::kSubtract:
      set_float(left, a - b);
      return nullptr;
    case ExprOp::kMultiply:
      set_float(left, a * b);
      return nullptr;
    case ExprOp::kDivide:
      set_float(left, a / b);
      return nullptr;
    default:
      return "% needs integers";
  }
}

const char* apply_function(ExprFunction function, ExprScalar* arguments, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments[i].kind == Kind::kText) return kNeedsNumbers;
  }
  ExprScalar& first = arguments[0];
  switch (function) {
    case ExprFunction::kMin:
      return minmax(true, arguments, count);
    case ExprFunction::kMax:
      return minmax(false, arguments, count);
    case ExprFunction::kFloat:
      set_float(first, as_double(first));
      return nullptr;
    case ExprFunction::kInt:
      return to_int(first);
    case ExprFunction::kSqrt:
      return root(false, first);
    case ExprFunction::kRsqrt:
      return root(true, first);
    case ExprFunction::kAbs:
      if (first.kind == Kind::kFloat) {
        first.number = std::fabs(first.number);
        return nullptr;
      }
      return first.integer < 0 ? apply_unary(ExprOp::kNegate, first) : nullptr;
    default:
      break;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments[i].kind != Kind::kInt) return kNeedsInteger;
  }
  return integer_function(function, arguments);
}

std::string_view function_name(ExprFunction function) {
  static constexpr std::array<std::string_view, 11> kNames{"ceil_div",  "min",  "max",      "abs",
                                                           "next_pow2", "log2", "round_up", "float",
                                                           "int",       "sqrt", "rsqrt"};
  return kNames[static_cast<std::size_t>(function)];
}

}  // namespace opforge
