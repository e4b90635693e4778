// The compiled form of an expression: a postfix program with jumps. No recursion when it runs and
// none when it is freed, so that a long expression cannot overflow the stack. Internal to
// src/operator/expression*.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operator/expression.hpp"

namespace opforge {

enum class ExprOp : std::uint8_t {
  kPushInt,
  kPushFloat,
  kPushText,
  kPushSymbol,
  kNegate,
  kNot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kJump,         // to `target`
  kJumpIfFalse,  // pop the condition; jump to `target` when it is 0
  kAndJump,      // top 0: leave 0 and jump; else pop it
  kOrJump,       // top not 0: leave 1 and jump; else pop it
  kToBool,       // top becomes 0 or 1
  kCall,         // `function` with `count` arguments
};

enum class ExprFunction : std::uint8_t {
  kCeilDiv,
  kMin,
  kMax,
  kAbs,
  kNextPow2,
  kLog2,
  kRoundUp,
  kFloat,
  kInt,
  kSqrt,
  kRsqrt,
};

struct ExprInstruction {
  ExprOp op = ExprOp::kPushInt;
  ExprFunction function = ExprFunction::kMin;
  std::uint16_t count = 0;
  std::uint32_t target = 0;  // of a jump; index in `texts` of a text or symbol
  std::uint32_t column = 0;  // 1-based, for messages
  std::int64_t integer = 0;
  double number = 0;
};

struct Expression::Program {
  std::vector<ExprInstruction> code;
  std::vector<std::string> texts;
  std::size_t stack_size = 0;
};

// A value while a program runs. `text` points into the program or into a symbol's value.
struct ExprScalar {
  enum class Kind : std::uint8_t { kInt, kFloat, kText } kind = Kind::kInt;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text;
};

// Why an operation failed, without the expression round it; null when it succeeded.
const char* apply_unary(ExprOp op, ExprScalar& top);
const char* apply_binary(ExprOp op, ExprScalar& left, const ExprScalar& right);
// The result replaces arguments[0].
const char* apply_function(ExprFunction function, ExprScalar* arguments, std::size_t count);
std::string_view function_name(ExprFunction function);

}  // namespace opforge
