#include "toolchain/reference_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "operator/expression.hpp"

namespace opforge {

namespace {

std::string_view without_dots(std::string_view dim) {
  return dim.starts_with("...") ? dim.substr(3) : dim;
}

std::string_view short_name(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// The number of a tensor's dtype as an expression over its name: DType's own order.
std::string dtype_number(const std::string& tensor) {
  std::string text;
  for (int i = 0; i + 1 < kDTypeCount; i++) {
    text += fmt::format("{}.dtype == '{}' ? {} : ", tensor, dtype_name(static_cast<DType>(i)), i);
  }
  return text + std::to_string(kDTypeCount - 1);
}

// An optional that is absent has no dims: its properties are asked for only where it is there.
std::string if_present(const TensorArg& tensor, const std::string& value) {
  return tensor.optional ? fmt::format("{}.present ? ({}) : 0", tensor.name, value) : value;
}

void add(std::vector<Binding>& bindings, std::string name, ParamType type, std::string value) {
  Binding binding;
  binding.name = std::move(name);
  binding.type = type;
  binding.value = std::move(value);
  bindings.push_back(std::move(binding));
}

void add_tensor(std::vector<Binding>& bindings, const TensorArg& tensor) {
  const std::string& name = tensor.name;
  add(bindings, name, ParamType::kPtr, name);
  add(bindings, name + "_present", ParamType::kI64, tensor.optional ? name + ".present" : "1");
  add(bindings, name + "_dtype", ParamType::kI64, if_present(tensor, dtype_number(name)));
  for (const char* property : {"dim", "stride"}) {
    for (std::size_t i = 0; i < tensor.dims.size(); i++) {
      add(bindings, fmt::format("{}_{}{}", name, property, i), ParamType::kI64,
          if_present(tensor, fmt::format("{}.{}{}", name, property, i)));
    }
  }
}

void add_attribute(std::vector<Binding>& bindings, const AttrArg& attribute) {
  if (attribute.type == AttrType::kText) {
    std::string text;
    for (std::size_t i = 0; i + 1 < attribute.choices.size(); i++) {
      text += fmt::format("{} == '{}' ? {} : ", attribute.name, attribute.choices[i], i);
    }
    add(bindings, attribute.name, ParamType::kI64,
        text + std::to_string(attribute.choices.size() - 1));
  } else {
    add(bindings, attribute.name,
        attribute.type == AttrType::kFloat ? ParamType::kF64 : ParamType::kI64, attribute.name);
  }
}

// Whether a symbol has an extent in this call: always when a required tensor has it, else when one
// of the optionals is there.
std::string known_when(const Signature& signature, const std::string& symbol) {
  std::vector<std::string> optionals;
  for (const TensorArg& tensor : signature.tensors) {
    for (const std::string& dim : tensor.dims) {
      const auto parsed = Expression::parse(without_dots(dim));
      if (!parsed || std::find(parsed->symbols().begin(), parsed->symbols().end(), symbol) ==
                         parsed->symbols().end())
        continue;
      if (!tensor.optional) return "1";
      optionals.push_back(tensor.name + ".present");
    }
  }
  return join(optionals, " || ");
}

}  // namespace

std::vector<std::string> dim_symbols(const Signature& signature) {
  std::vector<std::string> symbols;
  for (const TensorArg& tensor : signature.tensors) {
    for (const std::string& dim : tensor.dims) {
      const auto parsed = Expression::parse(without_dots(dim));
      if (!parsed) continue;  // validate() has reported it
      for (const std::string& symbol : parsed->symbols()) {
        if (find_attribute(signature, symbol) != nullptr) continue;
        if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
          symbols.push_back(symbol);
      }
    }
  }
  return symbols;
}

KernelDecl reference_kernel(const Operator& op) {
  const Signature& signature = op.signature;
  KernelDecl kernel;
  kernel.id = fmt::format("{}.reference", short_name(signature.name));
  kernel.description = "plain loops in double over libm; the truth that the others are judged by";
  kernel.backend = std::string(kReferenceBackend);
  kernel.tier = Tier::kHighPrecision;
  kernel.sources = {op.reference_source};
  LaunchStep step;
  step.entry = fmt::format("{}_reference", short_name(signature.name));
  for (const TensorArg& tensor : signature.tensors) add_tensor(step.bindings, tensor);
  for (const AttrArg& attribute : signature.attributes) add_attribute(step.bindings, attribute);
  for (const std::string& symbol : dim_symbols(signature)) {
    const std::string known = known_when(signature, symbol);
    add(step.bindings, symbol + "_known", ParamType::kI64, known);
    add(step.bindings, symbol, ParamType::kI64,
        known == "1" ? symbol : fmt::format("({}) ? {} : 0", known, symbol));
  }
  step.grid[0] = "1";
  step.block[0] = "1";
  kernel.launch.steps.push_back(std::move(step));
  return kernel;
}

void add_reference_kernel(Operator& op) {
  if (op.reference_source.empty()) return;
  KernelDecl kernel = reference_kernel(op);
  for (const KernelDecl& own : op.kernels) {
    if (own.id == kernel.id) return;
  }
  op.kernels.push_back(std::move(kernel));
}

}  // namespace opforge
