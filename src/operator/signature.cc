#include "operator/signature.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace opforge {

std::string to_string(const DTypeCombo& combo) {
  std::string text;
  for (const auto& [variable, dtype] : combo) {
    if (!text.empty()) text += ',';
    text += fmt::format("{}={}", variable, dtype_name(dtype));
  }
  return text;
}

const TensorArg* find_tensor(const Signature& signature, std::string_view name) {
  for (const TensorArg& tensor : signature.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const AttrArg* find_attribute(const Signature& signature, std::string_view name) {
  for (const AttrArg& attribute : signature.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

// Not through parse_dtype: its refusal builds a message.
bool is_dtype_variable(std::string_view dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_name(static_cast<DType>(i)) == dtype) return false;
  }
  return true;
}

std::string_view leading_symbol(std::string_view dim) {
  return dim.starts_with("...") ? dim.substr(3) : std::string_view{};
}

namespace {
void add_once(std::vector<std::string>& to, std::string_view name) {
  if (std::find(to.begin(), to.end(), name) == to.end()) to.emplace_back(name);
}
}  // namespace

std::vector<std::string> dim_symbols(const Signature& signature) {
  std::vector<std::string> symbols;
  for (const TensorArg& tensor : signature.tensors) {
    for (const std::string& dim : tensor.dims) {
      const std::string_view leading = leading_symbol(dim);
      const std::string_view name = leading.empty() ? std::string_view(dim) : leading;
      if (is_identifier(name)) add_once(symbols, name);
    }
  }
  return symbols;
}

std::vector<std::string> dtype_variables(const Signature& signature) {
  std::vector<std::string> variables;
  for (const TensorArg& tensor : signature.tensors) {
    if (is_dtype_variable(tensor.dtype)) add_once(variables, tensor.dtype);
  }
  return variables;
}

const std::vector<std::string>& device_symbols() {
  static const std::vector<std::string> kSymbols{"device.sm_count", "device.shared_bytes",
                                                 "device.warp_size"};
  return kSymbols;
}

namespace {

constexpr std::int64_t kMostAlign = 256;

std::int64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address == 0) return kMostAlign;
  const auto lowest = static_cast<std::int64_t>(address & (~address + 1));
  return lowest <= 0 ? kMostAlign : std::min(lowest, kMostAlign);
}

}  // namespace

CallSymbols::CallSymbols(const Signature& signature, const BoundCall& call) {
  add(call.dims);
  add(call.attributes);
  for (const auto& [variable, dtype] : call.dtypes) {
    add(variable, std::string(dtype_name(dtype)));
    add(variable + ".itemsize", static_cast<std::int64_t>(itemsize(dtype)));
  }
  for (std::size_t i = 0; i < signature.tensors.size() && i < call.tensors.size(); ++i) {
    const TensorArg& argument = signature.tensors[i];
    const TensorView& view = call.tensors[i];
    const std::string& name = argument.name;
    DType dtype = view.dtype;
    if (const auto found = call.dtypes.find(argument.dtype); found != call.dtypes.end()) {
      dtype = found->second;
    } else if (const auto fixed = parse_dtype(argument.dtype)) {
      dtype = *fixed;
    }
    add(name + ".present", std::int64_t{view.present()});
    add(name + ".rank", static_cast<std::int64_t>(argument.dims.size()));
    add(name + ".dtype", std::string(dtype_name(dtype)));
    add(name + ".dtype_code", static_cast<std::int64_t>(dtype));
    add(name + ".itemsize", static_cast<std::int64_t>(itemsize(dtype)));
    add(name + ".align", view.present() ? alignment_of(view.data) : kMostAlign);
    for (std::size_t d = 0; d < argument.dims.size(); ++d) {
      add(fmt::format("{}.dim{}", name, d), view.present() ? view.dims[d] : 0);
      add(fmt::format("{}.stride{}", name, d), view.present() ? view.strides[d] : 0);
    }
  }
}

void CallSymbols::add(std::string_view symbol, Value value) {
  values_.insert_or_assign(std::string(symbol), std::move(value));
}

void CallSymbols::add(const ValueMap& values) {
  for (const auto& [name, value] : values) add(name, value);
}

const Value* CallSymbols::find(std::string_view symbol) const {
  const auto found = values_.find(symbol);
  return found == values_.end() ? nullptr : &found->second;
}

SymbolLookup CallSymbols::lookup() const {
  return [this](std::string_view symbol) { return find(symbol); };
}

}  // namespace opforge
