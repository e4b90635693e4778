// Names, tensors, attributes and dtypes of a declaration.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "operator/validate.hpp"

namespace opforge::declaration {
namespace {

bool is_lower_word(std::string_view text) {
  return is_identifier(text) && text[0] >= 'a' && text[0] <= 'z' &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool is_reserved(std::string_view name) {
  return name == "null" || name == "workspace" || name == "device";
}

// One name space for everything that an expression can name.
class Names {
 public:
  explicit Names(const Operator& op) : op_(op) {}

  Status add(std::string_view name, std::string_view what) {
    if (!is_identifier(name)) {
      return wrong(op_, "{} has the bad name '{}': a letter or '_', then letters, digits and '_'",
                   what, name);
    }
    if (is_reserved(name))
      return wrong(op_, "{} may not be called '{}': the name is reserved", what, name);
    const auto [seen, is_new] = used_.emplace(name, what);
    if (is_new) return {};
    if (seen->second == what) return wrong(op_, "two {}s are called '{}'", what, name);
    return wrong(op_, "the name '{}' is used twice, for {} and {}: rename one", name, seen->second,
                 what);
  }

 private:
  const Operator& op_;
  std::map<std::string, std::string, std::less<>> used_;
};

Status check_names(const Operator& op) {
  const Signature& signature = op.signature;
  Names names(op);
  for (const TensorArg& tensor : signature.tensors) OPFORGE_TRY(names.add(tensor.name, "tensor"));
  for (const AttrArg& attribute : signature.attributes)
    OPFORGE_TRY(names.add(attribute.name, "attribute"));
  for (const std::string& symbol : dim_symbols(signature)) OPFORGE_TRY(names.add(symbol, "dim"));
  for (const std::string& variable : dtype_variables(signature)) {
    if (!is_identifier(variable)) {
      return wrong(op, "a tensor has the dtype '{}', which is neither a dtype nor a name for one",
                   variable);
    }
    OPFORGE_TRY(names.add(variable, "dtype variable"));
  }
  return {};
}

Status check_dim(const Operator& op, const TensorArg& tensor, std::size_t index) {
  const std::string& dim = tensor.dims[index];
  const std::string where = fmt::format("dim {} of {}", index, tensor.name);
  if (dim.starts_with("...")) {
    if (index != 0) return wrong(op, "{}: '{}' may only be the first dim", where, dim);
    if (is_identifier(leading_symbol(dim))) return {};
    return wrong(op, "{}: '{}' must be '...' and a symbol", where, dim);
  }
  if (is_identifier(dim)) return {};
  OPFORGE_ASSIGN(const Expression expression,
                 check_expression(op, nullptr, dim, where, kAnyDim | kAnyAttribute));
  for (const std::string& symbol : expression.symbols()) {
    const AttrArg* attribute = find_attribute(op.signature, symbol);
    if (attribute && attribute->type != AttrType::kInt) {
      return wrong(op, "{}: attribute {} in '{}' is not an integer", where, symbol, dim);
    }
  }
  return {};
}

// A symbol that stands only inside expressions could never be solved.
Status check_tensor(const Operator& op, const TensorArg& tensor) {
  if (tensor.dims.size() > static_cast<std::size_t>(kMaxRank)) {
    return wrong(op, "tensor {} has {} dims; at most {} are possible", tensor.name,
                 tensor.dims.size(), kMaxRank);
  }
  for (std::size_t d = 0; d < tensor.dims.size(); ++d) OPFORGE_TRY(check_dim(op, tensor, d));
  for (const std::string& other : tensor.may_alias) {
    if (other == tensor.name) return wrong(op, "tensor {} may not alias itself", tensor.name);
    const TensorArg* target = find_tensor(op.signature, other);
    if (!target)
      return wrong(op, "tensor {} may alias '{}', which is no tensor of it", tensor.name, other);
    if (target->access == Access::kRead && tensor.access == Access::kRead) {
      return wrong(op, "tensors {} and {} are only read: may_alias means nothing between them",
                   tensor.name, other);
    }
  }
  return {};
}

Result<ValueMap> try_value(const AttrArg& attribute, const Value& value) {
  Signature probe;
  probe.name = "value";
  probe.attributes.push_back(attribute);
  return bind_attributes(probe, {{attribute.name, value}});
}

Status check_attribute(const Operator& op, const AttrArg& attribute) {
  const std::string& name = attribute.name;
  if ((attribute.min && std::isnan(*attribute.min)) ||
      (attribute.max && std::isnan(*attribute.max)) ||
      (attribute.min && attribute.max && *attribute.min > *attribute.max)) {
    return wrong(op, "attribute {} has an empty range: min must be at most max", name);
  }
  if (attribute.type == AttrType::kText) {
    if (attribute.choices.empty())
      return wrong(op, "attribute {} is a text without choices: list them", name);
    if (std::set<std::string>(attribute.choices.begin(), attribute.choices.end()).size() !=
        attribute.choices.size()) {
      return wrong(op, "attribute {} lists a choice twice", name);
    }
  } else if (!attribute.choices.empty()) {
    return wrong(op, "attribute {} has choices but is no text", name);
  }
  if (attribute.default_value) {
    if (const auto good = try_value(attribute, *attribute.default_value); !good) {
      return wrong(op, "attribute {} has a bad default: {}", name, good.error().message);
    }
  }
  if (!attribute.baked) {
    if (!attribute.baked_values.empty())
      return wrong(op, "attribute {} lists baked values but is not baked", name);
    return {};
  }
  if (attribute.type == AttrType::kFloat) {
    return wrong(op, "attribute {} is a float: only integers, booleans and texts can be baked",
                 name);
  }
  if (attribute.type == AttrType::kInt && attribute.baked_values.empty()) {
    return wrong(op, "attribute {} is baked: list the values that are built ahead", name);
  }
  for (const Value& value : attribute.baked_values) {
    if (const auto good = try_value(attribute, value); !good) {
      return wrong(op, "attribute {} has a bad baked value: {}", name, good.error().message);
    }
    if (std::count(attribute.baked_values.begin(), attribute.baked_values.end(), value) > 1) {
      return wrong(op, "attribute {} lists the baked value {} twice", name, to_string(value));
    }
  }
  return {};
}

Status check_dtypes(const Operator& op) {
  const Signature& signature = op.signature;
  const std::vector<std::string> variables = dtype_variables(signature);
  if (!variables.empty() && signature.dtypes.empty()) {
    return wrong(op, "no dtype combination is allowed: list the values of {}",
                 join(variables, ", "));
  }
  for (std::size_t i = 0; i < signature.dtypes.size(); ++i) {
    const DTypeCombo& combo = signature.dtypes[i];
    for (const std::string& variable : variables) {
      if (!combo.contains(variable)) {
        return wrong(op, "dtype combination '{}' gives no value to {} (is that a misspelt dtype?)",
                     to_string(combo), variable);
      }
    }
    for (const auto& [variable, dtype] : combo) {
      if (std::find(variables.begin(), variables.end(), variable) == variables.end()) {
        return wrong(op, "dtype combination '{}' names {}, which no tensor has", to_string(combo),
                     variable);
      }
    }
    if (std::count(signature.dtypes.begin(), signature.dtypes.end(), combo) > 1) {
      return wrong(op, "dtype combination '{}' is listed twice", to_string(combo));
    }
  }
  return {};
}

}  // namespace

bool is_operator_name(std::string_view name) {
  std::size_t parts = 0;
  for (;;) {
    const std::size_t dot = name.find('.');
    if (!is_lower_word(name.substr(0, dot))) return false;
    ++parts;
    if (dot == std::string_view::npos) return parts >= 2;
    name.remove_prefix(dot + 1);
  }
}

Status check_signature(const Operator& op) {
  const Signature& signature = op.signature;
  if (signature.name.empty()) return wrong(op, "the name is empty: give it as <group>.<op>");
  if (!is_operator_name(signature.name)) {
    return wrong(op, "the name must be <group>.<op> in lower-case words: letters, digits and '_'");
  }
  OPFORGE_TRY(check_names(op));
  bool writes = false;
  for (const TensorArg& tensor : signature.tensors) {
    OPFORGE_TRY(check_tensor(op, tensor));
    writes = writes || tensor.access != Access::kRead;
  }
  if (!writes) return wrong(op, "no tensor is written: an operator needs an output");
  for (const AttrArg& attribute : signature.attributes) OPFORGE_TRY(check_attribute(op, attribute));
  OPFORGE_TRY(check_dtypes(op));
  const std::vector<std::string> symbols = dim_symbols(signature);
  for (const std::string& dim : signature.reduced_dims) {
    if (std::find(symbols.begin(), symbols.end(), dim) == symbols.end()) {
      return wrong(op, "reduced dim '{}' is no dim of a tensor; the dims are {}", dim,
                   join(symbols, ", "));
    }
  }
  const std::set<std::string> backends(signature.backend_priority.begin(),
                                       signature.backend_priority.end());
  if (backends.contains("") || backends.size() != signature.backend_priority.size()) {
    return wrong(op, "the backend priority has an empty or repeated name: {}",
                 join(signature.backend_priority, ", "));
  }
  return {};
}

}  // namespace opforge::declaration
