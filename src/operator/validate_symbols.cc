// Which symbols an expression of a declaration may use.
#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "operator/validate.hpp"

namespace opforge::declaration {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

SymbolKind dim_kind(const Signature& signature, std::string_view symbol) {
  return contains(signature.reduced_dims, symbol) ? SymbolKind::kReducedDim : SymbolKind::kBatchDim;
}

// The index behind "dim" or "stride"; -1 when it is not one of the tensor's.
int dim_index(std::string_view property, std::string_view prefix, std::size_t rank) {
  if (!property.starts_with(prefix)) return -1;
  property.remove_prefix(prefix.size());
  int index = -1;
  const auto read = std::from_chars(property.data(), property.data() + property.size(), index);
  const bool whole = read.ec == std::errc{} && read.ptr == property.data() + property.size();
  return whole && index >= 0 && static_cast<std::size_t>(index) < rank ? index : -1;
}

SymbolKind tensor_kind(const Signature& signature, const TensorArg& tensor,
                       std::string_view property) {
  if (property == "itemsize" || property == "dtype" || property == "dtype_code" ||
      property == "rank") {
    return SymbolKind::kDType;
  }
  if (property == "align" || property == "present") return SymbolKind::kTensorLayout;
  if (dim_index(property, "stride", tensor.dims.size()) >= 0) return SymbolKind::kTensorLayout;
  const int dim = dim_index(property, "dim", tensor.dims.size());
  if (dim < 0) return SymbolKind::kUnknown;
  const std::string& declared = tensor.dims[static_cast<std::size_t>(dim)];
  const std::string_view leading = leading_symbol(declared);
  const std::string_view symbol = leading.empty() ? std::string_view(declared) : leading;
  if (is_identifier(symbol)) return dim_kind(signature, symbol);
  // An expression is as variable as the most variable of its symbols.
  const auto expression = Expression::parse(declared);
  if (!expression) return SymbolKind::kUnknown;
  const bool reduced =
      std::all_of(expression->symbols().begin(), expression->symbols().end(),
                  [&](const std::string& s) { return contains(signature.reduced_dims, s); });
  return reduced ? SymbolKind::kReducedDim : SymbolKind::kBatchDim;
}

}  // namespace

SymbolKind classify(const Signature& signature, const KernelDecl* kernel, std::string_view symbol,
                    std::size_t tunables) {
  if (contains(dim_symbols(signature), symbol)) return dim_kind(signature, symbol);
  if (const AttrArg* attribute = find_attribute(signature, symbol)) {
    return attribute->baked ? SymbolKind::kBakedAttribute : SymbolKind::kAttribute;
  }
  for (std::size_t i = 0; kernel && i < kernel->tunables.size() && i < tunables; ++i) {
    if (kernel->tunables[i].name != symbol) continue;
    return kernel->tunables[i].changes_bits ? SymbolKind::kBitTunable : SymbolKind::kTunable;
  }
  const std::size_t dot = symbol.find('.');
  const std::string_view base = symbol.substr(0, dot);
  const bool is_variable = contains(dtype_variables(signature), base);
  if (dot == std::string_view::npos) return is_variable ? SymbolKind::kDType : SymbolKind::kUnknown;
  const std::string_view property = symbol.substr(dot + 1);
  if (is_variable) return property == "itemsize" ? SymbolKind::kDType : SymbolKind::kUnknown;
  if (contains(device_symbols(), symbol)) return SymbolKind::kDevice;
  const TensorArg* tensor = find_tensor(signature, base);
  return tensor ? tensor_kind(signature, *tensor, property) : SymbolKind::kUnknown;
}

std::string_view kind_text(SymbolKind kind) {
  switch (kind) {
    case SymbolKind::kReducedDim:
      return "a reduced dim";
    case SymbolKind::kBatchDim:
      return "a dim that is not reduced";
    case SymbolKind::kAttribute:
      return "an attribute that is not baked";
    case SymbolKind::kBakedAttribute:
      return "a baked attribute";
    case SymbolKind::kDType:
      return "a dtype";
    case SymbolKind::kTunable:
      return "a tunable";
    case SymbolKind::kBitTunable:
      return "a tunable that changes bits";
    case SymbolKind::kTensorLayout:
      return "a stride, alignment or presence";
    case SymbolKind::kDevice:
      return "a device property";
    case SymbolKind::kUnknown:
      break;
  }
  return "not a known symbol";
}

std::vector<std::string> known_symbols(const Signature& signature, const KernelDecl* kernel) {
  std::vector<std::string> names = dim_symbols(signature);
  for (const AttrArg& attribute : signature.attributes) names.push_back(attribute.name);
  for (const std::string& variable : dtype_variables(signature)) {
    names.push_back(variable);
    names.push_back(variable + ".itemsize");
  }
  for (const TensorArg& tensor : signature.tensors) {
    for (const char* property : {"align", "itemsize", "dtype", "dtype_code", "rank", "present"}) {
      names.push_back(fmt::format("{}.{}", tensor.name, property));
    }
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
      names.push_back(fmt::format("{}.dim{}", tensor.name, d));
      names.push_back(fmt::format("{}.stride{}", tensor.name, d));
    }
  }
  if (kernel) {
    for (const Tunable& tunable : kernel->tunables) names.push_back(tunable.name);
  }
  names.insert(names.end(), device_symbols().begin(), device_symbols().end());
  return names;
}

Result<Expression> check_expression(const Operator& op, const KernelDecl* kernel,
                                    std::string_view text, std::string_view where, unsigned allowed,
                                    std::size_t tunables) {
  auto parsed = Expression::parse(text);
  if (!parsed) return wrong(op, "{}: {}", where, parsed.error().message);
  for (const std::string& symbol : parsed->symbols()) {
    const SymbolKind kind = classify(op.signature, kernel, symbol, tunables);
    if (kind == SymbolKind::kUnknown) {
      const auto known = known_symbols(op.signature, kernel);
      return wrong(op, "{}: expression '{}' uses the unknown symbol '{}'; did you mean {}?", where,
                   text, symbol, join(nearest_names(symbol, known), ", "));
    }
    if (!(allowed & bit(kind))) {
      return wrong(op, "{}: expression '{}' may not use '{}' ({}) here", where, text, symbol,
                   kind_text(kind));
    }
  }
  return parsed;
}

}  // namespace opforge::declaration
