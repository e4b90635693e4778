// The parts of validate(). Internal to src/operator/validate*.cc.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "operator/operator.hpp"

namespace opforge::declaration {

template <class... Args>
tl::unexpected<Error> wrong(const Operator& op, fmt::format_string<Args...> format,
                            Args&&... args) {
  const std::string& name = op.signature.name;
  return fail(Code::kInvalidDeclaration,
              fmt::format("{}: {}", name.empty() ? "an operator without a name" : name,
                          fmt::format(format, std::forward<Args>(args)...)),
              "operator/validate");
}

// What a symbol of an expression stands for.
enum class SymbolKind : unsigned {
  kUnknown = 0,
  kReducedDim = 1,
  kBatchDim = 2,
  kAttribute = 4,
  kBakedAttribute = 8,
  kDType = 16,  // "T", "T.itemsize", and what follows from dtypes and declaration alone:
                // x.itemsize, x.dtype, x.rank
  kTunable = 32,
  kBitTunable = 64,     // one that changes bits
  kTensorLayout = 128,  // strides, alignment, presence
  kDevice = 256,
};
constexpr unsigned bit(SymbolKind kind) { return static_cast<unsigned>(kind); }
inline constexpr unsigned kAnyDim = bit(SymbolKind::kReducedDim) | bit(SymbolKind::kBatchDim);
inline constexpr unsigned kAnyAttribute =
    bit(SymbolKind::kAttribute) | bit(SymbolKind::kBakedAttribute);
inline constexpr unsigned kAnyTunable = bit(SymbolKind::kTunable) | bit(SymbolKind::kBitTunable);
inline constexpr unsigned kEverything = 511;

// `kernel` may be null: then there are no tunables. Only the first `tunables` of them are known.
SymbolKind classify(const Signature& signature, const KernelDecl* kernel, std::string_view symbol,
                    std::size_t tunables = static_cast<std::size_t>(-1));
std::string_view kind_text(SymbolKind kind);
// Every symbol that classify() knows, for "did you mean".
std::vector<std::string> known_symbols(const Signature& signature, const KernelDecl* kernel);

// Parses and checks that each symbol is of an allowed kind. `where` names the place: "kernel
// softmax.cpu, step 0: grid[0]".
Result<Expression> check_expression(const Operator& op, const KernelDecl* kernel,
                                    std::string_view text, std::string_view where, unsigned allowed,
                                    std::size_t tunables = static_cast<std::size_t>(-1));

bool is_operator_name(std::string_view name);
Status check_signature(const Operator& op);
Status check_operator(const Operator& op);  // what is neither signature nor kernel
Status check_kernel(const Operator& op, const KernelDecl& kernel);
Status check_launch(const Operator& op, const KernelDecl& kernel);
// Evaluates every expression at the operator's cases.
Status check_cases(const Operator& op);

}  // namespace opforge::declaration
