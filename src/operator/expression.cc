// Running a parsed expression. The parser is in expression_parse.cc.
#include "operator/expression.hpp"

#include <fmt/format.h>

#include <array>

#include "operator/expression_program.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "operator/expression";

tl::unexpected<Error> failed(Code code, const std::string& text, std::uint32_t column,
                             std::string_view why) {
  return fail(code, fmt::format("expression '{}', column {}: {}", text, column, why), kWhere);
}

ExprScalar to_scalar(const Value& value) {
  ExprScalar scalar;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    scalar.integer = *integer;
  } else if (const auto* number = std::get_if<double>(&value)) {
    scalar.kind = ExprScalar::Kind::kFloat;
    scalar.number = *number;
  } else {
    scalar.kind = ExprScalar::Kind::kText;
    scalar.text = std::get<std::string>(value);
  }
  return scalar;
}

std::string describe(const Value& value) {
  const char* kinds[] = {"integer", "float", "text"};
  return fmt::format("the {} {}", kinds[value.index()], to_string(value));
}

}  // namespace

// One run of a program. The stack holds at most `stack_size` values, which the parser worked out.
class ExpressionRun {
 public:
  ExpressionRun(const Expression::Program& program, const SymbolLookup& lookup)
      : program_(program), lookup_(lookup) {
    if (program.stack_size > small_.size()) {
      large_.resize(program.stack_size);
      stack_ = large_.data();
    }
  }

  // False when it failed: column(), why() and unknown_symbol() say how.
  bool run() {
    while (at_ < program_.code.size()) {
      const ExprInstruction& step = program_.code[at_++];
      why_ = apply(step);
      if (why_) {
        column_ = step.column;
        return false;
      }
    }
    return true;
  }

  const ExprScalar& result() const { return stack_[0]; }
  std::uint32_t column() const { return column_; }
  const char* why() const { return why_; }
  const std::string* unknown_symbol() const { return unknown_; }

 private:
  const char* apply(const ExprInstruction& step) {
    switch (step.op) {
      case ExprOp::kPushInt:
        stack_[top_++] = ExprScalar{.integer = step.integer};
        return nullptr;
      case ExprOp::kPushFloat:
        stack_[top_++] = ExprScalar{.kind = ExprScalar::Kind::kFloat, .number = step.number};
        return nullptr;
      case ExprOp::kPushText:
        stack_[top_++] =
            ExprScalar{.kind = ExprScalar::Kind::kText, .text = program_.texts[step.target]};
        return nullptr;
      case ExprOp::kPushSymbol:
        return push_symbol(program_.texts[step.target]);
      case ExprOp::kNegate:
      case ExprOp::kNot:
      case ExprOp::kToBool:
        return apply_unary(step.op, stack_[top_ - 1]);
      case ExprOp::kJump:
        at_ = step.target;
        return nullptr;
      case ExprOp::kJumpIfFalse:
      case ExprOp::kAndJump:
      case ExprOp::kOrJump:
        return branch(step);
      case ExprOp::kCall:
        top_ -= step.count - 1u;
        return apply_function(step.function, stack_ + top_ - 1, step.count);
      default:
        --top_;
        return apply_binary(step.op, stack_[top_ - 1], stack_[top_]);
    }
  }

  const char* push_symbol(const std::string& name) {
    const Value* value = lookup_ ? lookup_(name) : nullptr;
    if (!value) {
      unknown_ = &name;
      return "not a symbol that is known here";
    }
    stack_[top_++] = to_scalar(*value);
    return nullptr;
  }

  const char* branch(const ExprInstruction& step) {
    if (const char* why = apply_unary(ExprOp::kToBool, stack_[top_ - 1])) return why;
    const bool truth = stack_[top_ - 1].integer != 0;
    if (step.op == ExprOp::kJumpIfFalse) {
      --top_;
      if (!truth) at_ = step.target;
    } else if (truth == (step.op == ExprOp::kOrJump)) {
      at_ = step.target;
    } else {
      --top_;
    }
    return nullptr;
  }

  const Expression::Program& program_;
  const SymbolLookup& lookup_;
  std::array<ExprScalar, 24> small_;
  std::vector<ExprScalar> large_;
  ExprScalar* stack_ = small_.data();
  std::size_t top_ = 0;  // number of values on the stack
  std::size_t at_ = 0;
  std::uint32_t column_ = 0;
  const char* why_ = nullptr;
  const std::string* unknown_ = nullptr;
};

Result<Value> Expression::evaluate(const SymbolLookup& lookup) const {
  if (!program_) return Value{std::int64_t{0}};
  ExpressionRun run(*program_, lookup);
  if (!run.run()) {
    if (const std::string* name = run.unknown_symbol()) {
      return failed(Code::kInvalidDeclaration, text_, run.column(),
                    fmt::format("'{}' is {}", *name, run.why()));
    }
    return failed(Code::kInvalidArgument, text_, run.column(), run.why());
  }
  const ExprScalar& result = run.result();
  if (result.kind == ExprScalar::Kind::kInt) return Value{result.integer};
  if (result.kind == ExprScalar::Kind::kFloat) return Value{result.number};
  return Value{std::string(result.text)};
}

Result<std::int64_t> Expression::evaluate_int(const SymbolLookup& lookup) const {
  OPFORGE_ASSIGN(const Value value, evaluate(lookup));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  return failed(Code::kInvalidArgument, text_, 1,
                fmt::format("an integer is needed but it gives {}", describe(value)));
}

Result<double> Expression::evaluate_float(const SymbolLookup& lookup) const {
  OPFORGE_ASSIGN(const Value value, evaluate(lookup));
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  return failed(Code::kInvalidArgument, text_, 1,
                fmt::format("a number is needed but it gives {}", describe(value)));
}

Result<bool> Expression::evaluate_bool(const SymbolLookup& lookup) const {
  OPFORGE_ASSIGN(const std::int64_t value, evaluate_int(lookup));
  return value != 0;
}

const std::vector<std::string>& Expression::symbols() const { return symbols_; }

SymbolLookup lookup_in(const ValueMap& values) {
  return [&values](std::string_view symbol) -> const Value* {
    const auto found = values.find(symbol);
    return found == values.end() ? nullptr : &found->second;
  };
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0])) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

}  // namespace opforge
