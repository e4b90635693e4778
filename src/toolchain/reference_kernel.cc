#include "toolchain/reference_kernel.hpp"

#include <fmt/format.h>

namespace opforge {

namespace {

std::string_view short_name(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
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
  add(bindings, name + "_present", ParamType::kI64, name + ".present");
  add(bindings, name + "_dtype", ParamType::kI64, name + ".dtype_code");
  for (const char* property : {"dim", "stride"}) {
    for (std::size_t i = 0; i < tensor.dims.size(); i++) {
      add(bindings, fmt::format("{}_{}{}", name, property, i), ParamType::kI64,
          fmt::format("{}.{}{}", name, property, i));
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

}  // namespace

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
    add(step.bindings, symbol, ParamType::kI64, symbol);
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
