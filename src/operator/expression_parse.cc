// Text -> program: recursive descent with a depth limit; constants are folded as they are met.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/text.hpp"
#include "operator/expression_program.hpp"

namespace opforge {
namespace {

constexpr std::size_t kMaxText = 65535;
constexpr int kMaxDepth = 100;

struct FunctionRow {
  ExprFunction function;
  std::uint16_t least, most;  // number of arguments
};
constexpr std::uint16_t kMany = std::numeric_limits<std::uint16_t>::max();
constexpr std::array kFunctions{
    FunctionRow{ExprFunction::kCeilDiv, 2, 2},  FunctionRow{ExprFunction::kMin, 2, kMany},
    FunctionRow{ExprFunction::kMax, 2, kMany},  FunctionRow{ExprFunction::kAbs, 1, 1},
    FunctionRow{ExprFunction::kNextPow2, 1, 1}, FunctionRow{ExprFunction::kLog2, 1, 1},
    FunctionRow{ExprFunction::kRoundUp, 2, 2},  FunctionRow{ExprFunction::kFloat, 1, 1},
    FunctionRow{ExprFunction::kInt, 1, 1},      FunctionRow{ExprFunction::kSqrt, 1, 1},
    FunctionRow{ExprFunction::kRsqrt, 1, 1}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 120)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > 120 ? out + "..." : out;
}

struct BinaryRow {
  std::string_view sign;
  ExprOp op;
  int level;  // 0 comparisons, 1 sums, 2 products
};
// Longer signs before their prefixes.
constexpr std::array kBinary{
    BinaryRow{"==", ExprOp::kEqual, 0},     BinaryRow{"!=", ExprOp::kNotEqual, 0},
    BinaryRow{"<=", ExprOp::kLessEqual, 0}, BinaryRow{">=", ExprOp::kGreaterEqual, 0},
    BinaryRow{"<", ExprOp::kLess, 0},       BinaryRow{">", ExprOp::kGreater, 0},
    BinaryRow{"+", ExprOp::kAdd, 1},        BinaryRow{"-", ExprOp::kSubtract, 1},
    BinaryRow{"*", ExprOp::kMultiply, 2},   BinaryRow{"/", ExprOp::kDivide, 2},
    BinaryRow{"%", ExprOp::kRemainder, 2}};

}  // namespace

// Each parse_* leaves code that pushes exactly one value, or sets error_ and returns false.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text)
      : text_(text), program_(std::make_shared<Expression::Program>()) {}

  Result<Expression> run() {
    if (text_.size() > kMaxText) {
      error(kMaxText, fmt::format("{} characters are more than {}", text_.size(), kMaxText));
    } else if (parse_expression() && peek() != '\0') {
      expected("an operator or the end");
    } else if (error_.empty() && at_ != text_.size()) {
      expected("an operator or the end");  // a NUL byte in the text
    }
    if (!error_.empty()) return fail(Code::kInvalidDeclaration, error_, "operator/expression");
    program_->stack_size = most_;
    Expression expression;
    expression.text_ = std::string(text_);
    expression.symbols_ = std::move(symbols_);
    std::sort(expression.symbols_.begin(), expression.symbols_.end());
    const auto last = std::unique(expression.symbols_.begin(), expression.symbols_.end());
    expression.symbols_.erase(last, expression.symbols_.end());
    expression.program_ = std::move(program_);
    return expression;
  }

 private:
  bool error(std::size_t at, std::string_view why) {
    if (error_.empty()) {
      error_ = fmt::format("expression '{}', column {}: {}", shown(text_), at + 1, why);
    }
    return false;
  }

  bool expected(std::string_view what) {
    const char next = peek();
    const std::string found =
        at_ >= text_.size() ? "the end" : fmt::format("'{}'", shown({&next, 1}));
    return error(at_, fmt::format("expected {}, found {}", what, found));
  }

  // The next character after spaces; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(std::string_view sign) {
    peek();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }

  std::vector<ExprInstruction>& code() { return program_->code; }
  std::uint32_t here() { return static_cast<std::uint32_t>(code().size()); }

  void push(ExprInstruction instruction, std::size_t column) {
    instruction.column = static_cast<std::uint32_t>(column + 1);
    code().push_back(instruction);
    most_ = std::max(most_, ++depth_);
  }

  std::uint32_t emit_jump(ExprOp op, std::size_t column) {
    code().push_back({.op = op, .column = static_cast<std::uint32_t>(column + 1)});
    return here() - 1;
  }

  void land(std::uint32_t jump) {
    code()[jump].target = here();
    label_ = here();
  }

  // An operation over the last `count` values. When all are numbers it is done now.
  bool emit(ExprInstruction instruction, std::size_t count, std::size_t column) {
    instruction.column = static_cast<std::uint32_t>(column + 1);
    depth_ -= count - 1;
    if (!constants(count)) {
      code().push_back(instruction);
      return true;
    }
    std::vector<ExprScalar> values;
    for (std::size_t i = code().size() - count; i < code().size(); ++i) {
      const bool integer = code()[i].op == ExprOp::kPushInt;
      values.push_back({.kind = integer ? ExprScalar::Kind::kInt : ExprScalar::Kind::kFloat,
                        .integer = code()[i].integer,
                        .number = code()[i].number});
    }
    const char* why = nullptr;
    if (instruction.op == ExprOp::kCall) {
      why = apply_function(instruction.function, values.data(), count);
    } else if (count == 1) {
      why = apply_unary(instruction.op, values[0]);
    } else {
      why = apply_binary(instruction.op, values[0], values[1]);
    }
    if (why) return error(column, why);
    code().resize(code().size() - count);
    const bool integer = values[0].kind == ExprScalar::Kind::kInt;
    code().push_back({.op = integer ? ExprOp::kPushInt : ExprOp::kPushFloat,
                      .column = instruction.column,
                      .integer = values[0].integer,
                      .number = values[0].number});
    return true;
  }

  // Are the last `count` instructions numbers, with no jump landing among or after them?
  bool constants(std::size_t count) {
    if (code().size() < count + label_) return false;
    return std::all_of(code().end() - static_cast<std::ptrdiff_t>(count), code().end(),
                       [](const ExprInstruction& i) {
                         return i.op == ExprOp::kPushInt || i.op == ExprOp::kPushFloat;
                       });
  }

  bool deeper() {
    if (++nesting_ <= kMaxDepth) return true;
    return error(at_, fmt::format("nested deeper than {} levels", kMaxDepth));
  }

  bool parse_expression() {
    if (!deeper() || !parse_or()) return false;
    peek();
    const std::size_t column = at_;
    if (take("?")) {
      const std::uint32_t to_else = emit_jump(ExprOp::kJumpIfFalse, column);
      const std::size_t base = --depth_;
      if (!parse_expression()) return false;
      if (!take(":")) return expected("':' of ?:");
      const std::uint32_t to_end = emit_jump(ExprOp::kJump, column);
      land(to_else);
      depth_ = base;
      if (!parse_expression()) return false;
      land(to_end);
    }
    --nesting_;
    return true;
  }

  bool parse_or() { return parse_lazy("||", ExprOp::kOrJump, &ExpressionParser::parse_and); }
  bool parse_and() {
    return parse_lazy("&&", ExprOp::kAndJump, &ExpressionParser::parse_comparison);
  }

  bool parse_lazy(std::string_view sign, ExprOp jump, bool (ExpressionParser::*side)()) {
    if (!(this->*side)()) return false;
    for (;;) {
      peek();
      const std::size_t column = at_;
      if (!take(sign)) return true;
      const std::uint32_t to_end = emit_jump(jump, column);
      --depth_;
      if (!(this->*side)()) return false;
      code().push_back({.op = ExprOp::kToBool, .column = static_cast<std::uint32_t>(column + 1)});
      land(to_end);
    }
  }

  bool parse_comparison() { return parse_binary(0); }

  bool parse_binary(int level) {
    if (level == 3) return parse_unary();
    if (!parse_binary(level + 1)) return false;
    for (int seen = 0;; ++seen) {
      peek();
      const std::size_t column = at_;
      const auto* row = std::find_if(kBinary.begin(), kBinary.end(), [&](const BinaryRow& r) {
        return r.level == level && text_.substr(at_, r.sign.size()) == r.sign;
      });
      if (row == kBinary.end()) return true;
      if (level == 0 && seen > 0) {
        return error(column, "comparisons do not chain: join them with &&");
      }
      at_ += row->sign.size();
      if (!parse_binary(level + 1)) return false;
      if (!emit({.op = row->op}, 2, column)) return false;
    }
  }

  bool parse_unary() {
    const char next = peek();
    if (next != '-' && next != '!') return parse_primary();
    const std::size_t column = at_++;
    if (next == '-' && take("9223372036854775808")) {
      if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) {
        return error(column, "the number is outside 64 bits");
      }
      push({.op = ExprOp::kPushInt, .integer = std::numeric_limits<std::int64_t>::min()}, column);
      return true;
    }
    if (!deeper() || !parse_unary()) return false;
    --nesting_;
    return emit({.op = next == '-' ? ExprOp::kNegate : ExprOp::kNot}, 1, column);
  }

  bool parse_primary() {
    const char next = peek();
    const bool point_first = next == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]);
    if (is_digit(next) || point_first) return parse_number();
    if (next == '\'') return parse_text();
    if (take("(")) {
      if (!parse_expression()) return false;
      return take(")") || expected("')'");
    }
    if (is_identifier({&next, 1})) return parse_name();
    return expected("a number, a text, a symbol, a function or '('");
  }

  bool parse_number() {
    const std::size_t start = at_;
    bool is_float = false;
    const auto digits = [&] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      is_float = true;
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      std::size_t exponent = at_ + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        is_float = true;
        at_ = exponent;
        digits();
      }
    }
    if (at_ < text_.size() && (is_identifier(text_.substr(at_, 1)) || text_[at_] == '.')) {
      return error(at_, fmt::format("expected an operator after the number {}, found '{}'",
                                    text_.substr(start, at_ - start), text_[at_]));
    }
    const char* first = text_.data() + start;
    const char* last = text_.data() + at_;
    ExprInstruction number{.op = is_float ? ExprOp::kPushFloat : ExprOp::kPushInt};
    const auto read = is_float ? std::from_chars(first, last, number.number)
                               : std::from_chars(first, last, number.integer);
    if (read.ec != std::errc{} || read.ptr != last) {
      return error(start, "the number is outside 64 bits");
    }
    push(number, start);
    return true;
  }

  bool parse_text() {
    const std::size_t start = at_;
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) return error(start, "the text has no closing quote");
    at_ = end + 1;
    push({.op = ExprOp::kPushText, .target = keep(text_.substr(start + 1, end - start - 1))},
         start);
    return true;
  }

  bool parse_name() {
    const std::size_t start = at_;
    const auto word = [&] {
      while (at_ < text_.size() && (is_identifier(text_.substr(at_, 1)) || is_digit(text_[at_]))) {
        ++at_;
      }
    };
    word();
    while (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (at_ >= text_.size() || !is_identifier(text_.substr(at_, 1))) {
        return expected("a name after '.'");
      }
      word();
    }
    const std::string_view name = text_.substr(start, at_ - start);
    if (peek() == '(') return parse_call(name, start);
    push({.op = ExprOp::kPushSymbol, .target = keep(name)}, start);
    symbols_.emplace_back(name);
    return true;
  }

  bool parse_call(std::string_view name, std::size_t start) {
    const auto* row = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const FunctionRow& r) {
      return function_name(r.function) == name;
    });
    if (row == kFunctions.end()) {
      std::vector<std::string> names;
      for (const FunctionRow& r : kFunctions) names.emplace_back(function_name(r.function));
      return error(start, fmt::format("'{}' is not a function; the functions are {}", shown(name),
                                      join(names, ", ")));
    }
    take("(");
    std::uint16_t count = 0;
    if (!take(")")) {
      do {
        if (!parse_expression()) return false;
        ++count;
      } while (take(","));
      if (!take(")")) return expected("',' or ')'");
    }
    if (count < row->least || count > row->most) {
      return error(start, fmt::format("{} takes {}{} argument(s), not {}", name,
                                      row->most == kMany ? "at least " : "", row->least, count));
    }
    return emit({.op = ExprOp::kCall, .function = row->function, .count = count}, count, start);
  }

  std::uint32_t keep(std::string_view text) {
    program_->texts.emplace_back(text);
    return static_cast<std::uint32_t>(program_->texts.size() - 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
  std::shared_ptr<Expression::Program> program_;
  std::vector<std::string> symbols_;
  int nesting_ = 0;
  std::size_t depth_ = 0, most_ = 0;  // values on the stack at this point, and the most there were
  std::uint32_t label_ = 0;           // where the last jump lands
};

Result<Expression> Expression::parse(std::string_view text) { return ExpressionParser(text).run(); }

}  // namespace opforge
