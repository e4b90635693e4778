// The expression language of launch records, guards, dims, tunable defaults and work models.
//
//   expr    := or ('?' expr ':' expr)?                      or, and: || &&   comparisons: == != <
//   <= > >= unary   := '-' '!'            binary: + - * / %          / and % on integers truncate
//   toward zero Comparisons do not chain (a < b < c is refused: write a < b && b < c). primary :=
//   integer | float | 'text' | symbol | function '(' expr, ... ')' | '(' expr ')' symbol  :=
//   [A-Za-z_][A-Za-z0-9_]* ('.' [A-Za-z_][A-Za-z0-9_]*)* function: ceil_div(a,b) min max abs
//   next_pow2(a) log2(a) (floor, integers > 0) round_up(a,b) float(a) int(a) sqrt(a) rsqrt(a)
//
//   min and max take two or more arguments; ceil_div rounds towards +infinity; round_up(a,b) wants
//   b > 0; next_pow2 of 0 and 1 is 1; int(a) truncates and refuses what does not fit.
//
// Integers are 64-bit and checked: overflow and division by zero are errors that name the
// expression. Mixing an integer and a float gives a float; floats follow IEEE (1.0 / 0 is
// infinity). `&&`, `||` and `?:` evaluate only the side they need, and their conditions are
// integers. Texts only compare with == and !=. At most 65,535 characters and 100 levels deep. Parts
// made of constants alone are evaluated when parsed, so that "1 / 0" is a parse error.
//
// Symbols, by convention: dims ("M"), attributes ("eps"), tunables ("THREADS"), dtype variables as
// text ("T" == 'bf16'); of a tensor x: x.dim0, x.stride0 (elements), x.align (largest power of two
// that divides the address, at most 256), x.itemsize, x.dtype (text), x.present; of the device:
// device.sm_count, device.shared_bytes, device.warp_size.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "operator/value.hpp"

namespace opforge {

// Gives the value of a symbol, or null when it has none.
using SymbolLookup = std::function<const Value*(std::string_view symbol)>;

class Expression {
 public:
  // kInvalidDeclaration with the column and what was expected.
  static Result<Expression> parse(std::string_view text);
  Expression() = default;  // evaluates to integer 0

  // kInvalidDeclaration for an unknown symbol, kInvalidArgument for overflow, division by zero or a
  // type mismatch.
  Result<Value> evaluate(const SymbolLookup& lookup) const;
  Result<std::int64_t> evaluate_int(const SymbolLookup& lookup) const;  // a float value is an error
  Result<double> evaluate_float(const SymbolLookup& lookup) const;      // integers are converted
  Result<bool> evaluate_bool(const SymbolLookup& lookup) const;         // integer != 0

  const std::vector<std::string>& symbols() const;  // sorted, each once
  const std::string& text() const { return text_; }

 private:
  struct Program;
  friend class ExpressionParser;
  friend class ExpressionRun;
  std::string text_;
  std::vector<std::string> symbols_;
  std::shared_ptr<const Program> program_;
};

SymbolLookup lookup_in(const ValueMap& values);  // the map must outlive the result

// A letter or '_', then letters, digits and '_': what a dim, attribute or tunable may be called.
bool is_identifier(std::string_view text);

}  // namespace opforge
