// Every expression of a declaration, evaluated at its own cases: division by zero, overflow and
// wrong types are found when the operator is declared and not when it is called.
#include <algorithm>

#include "operator/validate.hpp"

namespace opforge::declaration {
namespace {

// Tensors of a case as a caller would give them: contiguous, far apart, at addresses that are never
// read.
Result<std::vector<TensorView>> case_tensors(const Operator& op, const Case& one,
                                             const DTypeCombo& dtypes, const ValueMap& known,
                                             bool optionals) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;
  std::vector<TensorView> views;
  std::uintptr_t address = 4096;
  for (const TensorArg& argument : op.signature.tensors) {
    if (argument.optional && !optionals) {
      views.push_back(TensorView::absent());
      continue;
    }
    std::vector<std::int64_t> dims;
    const auto variable = dtypes.find(argument.dtype);
    DType dtype = DType::kF32;
    if (variable != dtypes.end()) {
      dtype = variable->second;
    } else {
      OPFORGE_ASSIGN(dtype, parse_dtype(argument.dtype));
    }
    std::int64_t bytes = static_cast<std::int64_t>(itemsize(dtype));
    for (const std::string& dim : argument.dims) {
      const std::string_view leading = leading_symbol(dim);
      OPFORGE_ASSIGN(const Expression parsed,
                     Expression::parse(leading.empty() ? std::string_view(dim) : leading));
      OPFORGE_ASSIGN(const std::int64_t extent, parsed.evaluate_int(lookup_in(known)));
      if (extent < 0)
        return wrong(op, "case {}: dim {} of {} is {}", one.name, dim, argument.name, extent);
      dims.push_back(extent);
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes) ||
          bytes > kMostBytes) {
        return wrong(op, "case {}: {} has more than {} bytes", one.name, argument.name, kMostBytes);
      }
    }
    views.push_back(TensorView::contiguous(reinterpret_cast<void*>(address), dtype, dims));
    address += (static_cast<std::uintptr_t>(bytes) + 4095) / 4096 * 4096;
  }
  return views;
}

struct PlacedExpression {
  ExprPlace place;
  Expression expression;
  std::string where;
};

// All expressions of a kernel, parsed once; guards first, since the rest only has to make sense
// where they hold.
Result<std::vector<PlacedExpression>> parse_all(const KernelDecl& kernel) {
  std::vector<PlacedExpression> all;
  OPFORGE_TRY(visit_expressions(
      kernel.launch,
      [&](ExprPlace place, const std::string& text, const std::string& where) -> Status {
        if (place == ExprPlace::kPointer) {
          OPFORGE_ASSIGN(PointerValue pointer, parse_pointer(text));
          all.push_back({place, std::move(pointer.add_bytes), where});
          return {};
        }
        OPFORGE_ASSIGN(Expression parsed, Expression::parse(text));
        all.push_back({place, std::move(parsed), where});
        return {};
      }));
  std::stable_partition(all.begin(), all.end(),
                        [](const PlacedExpression& e) { return e.place == ExprPlace::kGuard; });
  return all;
}

class CaseCheck {
 public:
  explicit CaseCheck(const Operator& op) : op_(op) {}

  Status run() {
    for (const KernelDecl& kernel : op_.kernels) {
      OPFORGE_ASSIGN(auto parsed, parse_all(kernel));
      expressions_.push_back(std::move(parsed));
    }
    const bool has_optional =
        std::any_of(op_.signature.tensors.begin(), op_.signature.tensors.end(),
                    [](const TensorArg& t) { return t.optional; });
    const std::vector<DTypeCombo> combos =
        op_.signature.dtypes.empty() ? std::vector<DTypeCombo>(1) : op_.signature.dtypes;
    for (std::size_t i = 0; i < op_.cases.size(); ++i) {
      for (std::size_t c = 0; c < (i == 0 ? combos.size() : 1); ++c) {
        OPFORGE_TRY(one_case(op_.cases[i], combos[c], true));
        if (has_optional) OPFORGE_TRY(one_case(op_.cases[i], combos[c], false));
      }
    }
    return {};
  }

 private:
  Status one_case(const Case& one, const DTypeCombo& dtypes, bool optionals) {
    const auto bad = [&](const Error& error) {
      return wrong(op_, "case {}: {}", one.name, error.message);
    };
    for (const auto& [symbol, value] : one.dims) {
      const auto symbols = dim_symbols(op_.signature);
      if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) {
        return wrong(op_, "case {}: '{}' is no dim of the operator", one.name, symbol);
      }
    }
    auto known = bind_attributes(op_.signature, one.attributes);
    if (!known) return bad(known.error());
    known->insert(one.dims.begin(), one.dims.end());
    const auto tensors = case_tensors(op_, one, dtypes, *known, optionals);
    if (!tensors) return bad(tensors.error());
    const auto call = bind_call(op_.signature, *tensors, one.attributes);
    if (!call) return bad(call.error());
    for (std::size_t k = 0; k < op_.kernels.size(); ++k) {
      const auto& served = op_.kernels[k].dtypes;
      if (!served.empty() && std::find(served.begin(), served.end(), dtypes) == served.end())
        continue;
      if (const auto status = one_kernel(op_.kernels[k], expressions_[k], *call); !status)
        return bad(status.error());
    }
    return work(one, *call);
  }

  Status one_kernel(const KernelDecl& kernel, const std::vector<PlacedExpression>& expressions,
                    const BoundCall& call) {
    CallSymbols symbols(op_.signature, call);
    for (const std::string& name : device_symbols()) symbols.add(name, std::int64_t{1} << 16);
    const auto named = [&](const Error& error, std::string_view where) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("kernel {}, {}: {}", kernel.id, where, error.message));
    };
    for (const Tunable& tunable : kernel.tunables) {
      const auto value = initial_value(tunable, symbols.lookup());
      if (!value) return named(value.error(), "tunable " + tunable.name);
      symbols.add(tunable.name, *value);
    }
    for (const PlacedExpression& placed : expressions) {
      if (placed.place == ExprPlace::kGuard) {
        const auto holds = placed.expression.evaluate_bool(symbols.lookup());
        if (!holds) return named(holds.error(), placed.where);
        if (!*holds) return {};  // this variant would not be used here
        continue;
      }
      if (placed.place == ExprPlace::kFloat) {
        const auto value = placed.expression.evaluate_float(symbols.lookup());
        if (!value) return named(value.error(), placed.where);
        continue;
      }
      const auto value = placed.expression.evaluate_int(symbols.lookup());
      if (!value) return named(value.error(), placed.where);
      const bool may_be_negative =
          placed.place == ExprPlace::kInteger || placed.place == ExprPlace::kPointer;
      if (*value < 0 && !may_be_negative) {
        return fail(Code::kInvalidDeclaration,
                    fmt::format("kernel {}, {}: '{}' is negative ({})", kernel.id, placed.where,
                                placed.expression.text(), *value));
      }
    }
    return {};
  }

  Status work(const Case& one, const BoundCall& call) {
    const CallSymbols symbols(op_.signature, call);
    for (const std::string* text :
         {&op_.work.bytes_read, &op_.work.bytes_written, &op_.work.flops}) {
      if (text->empty()) continue;
      OPFORGE_ASSIGN(const Expression parsed, Expression::parse(*text));
      const auto value = parsed.evaluate_float(symbols.lookup());
      if (!value) return wrong(op_, "case {}: work model: {}", one.name, value.error().message);
    }
    return {};
  }

  const Operator& op_;
  std::vector<std::vector<PlacedExpression>> expressions_;  // by kernel
};

}  // namespace

Status check_cases(const Operator& op) { return CaseCheck(op).run(); }

}  // namespace opforge::declaration
