// What of a variant a DSL is told, and what its code is checked against; declared in
// dsl_toolchain.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"
#include "operator/expression.hpp"
#include "toolchain/dsl_toolchain.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/dsl";
constexpr std::int64_t kMostThreads = 1024;

nlohmann::json values_json(const ValueMap& values) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : values)
    std::visit([&, &key = name](const auto& plain) { out[key] = plain; }, value);
  return out;
}

ValueMap symbols_of(const CompileRequest& request) {
  ValueMap symbols = request.variant.values;
  symbols.insert(request.variant.baked.begin(), request.variant.baked.end());
  for (const auto& [name, dtype] : request.variant.dtypes) {
    symbols[name] = std::string(dtype_name(dtype));
    symbols[name + ".itemsize"] = static_cast<std::int64_t>(itemsize(dtype));
  }
  return symbols;
}

struct OptionText {
  std::string name, condition, value;
  bool is_list = false;
};

// "name=value" or "name(condition)=value"; the latter is a list.
Result<OptionText> parse_option(const CompileRequest& request, const std::string& text) {
  OptionText option;
  const auto wrong = [&] {
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}': option '{}' must be name=expression or "
                            "name(condition)=parameter,parameter",
                            request.kernel->id, text),
                kWhere);
  };
  const std::size_t name_end = text.find_first_of("=(");
  if (name_end == std::string::npos || name_end == 0) return wrong();
  option.name = trim(std::string_view(text).substr(0, name_end));
  std::size_t at = name_end;
  if (text[at] == '(') {
    const std::size_t close = text.find(")=", at);
    if (close == std::string::npos) return wrong();
    option.condition = text.substr(at + 1, close - at - 1);
    option.is_list = true;
    at = close + 1;
  }
  option.value = text.substr(at + 1);
  if (option.value.empty()) return wrong();
  return option;
}

// The most dynamic and static shared memory that a block can have on any device of a target.
std::int64_t most_shared(const Target& target) {
  if (target.device == DeviceKind::kHip) return target.arch == 0x950 ? 160 * 1024 : 64 * 1024;
  switch (target.arch) {
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * 1024;
    default:
      return 227 * 1024;
  }
}

}  // namespace

nlohmann::json variant_json(const CompileRequest& request) {
  const Variant& variant = request.variant;
  nlohmann::json out = {{"op", variant.op},
                        {"kernel", variant.kernel},
                        {"target", request.target.name},
                        {"device", device_kind_name(request.target.device)},
                        {"arch", request.target.arch},
                        {"values", values_json(variant.values)},
                        {"baked", values_json(variant.baked)},
                        {"dtypes", nlohmann::json::object()}};
  for (const auto& [name, dtype] : variant.dtypes) out["dtypes"][name] = dtype_name(dtype);
  return out;
}

std::string dsl_subject(const CompileRequest& request) {
  return fmt::format("{} of {}", to_string(request.variant), request.variant.op);
}

Result<std::optional<DType>> pointee(const CompileRequest& request, const Binding& binding) {
  const std::string& text =
      binding.type == ParamType::kTensorMap ? binding.tensor_map.base : binding.value;
  OPFORGE_ASSIGN(const PointerValue pointer, parse_pointer(text));
  if (pointer.base != PointerValue::Base::kTensor) return std::optional<DType>{};
  for (const TensorArg& tensor : request.op->signature.tensors) {
    if (tensor.name != pointer.tensor) continue;
    const auto found = request.variant.dtypes.find(tensor.dtype);
    if (found != request.variant.dtypes.end()) return std::optional<DType>(found->second);
    if (const auto fixed = parse_dtype(tensor.dtype)) return std::optional<DType>(*fixed);
  }
  return fail(Code::kInvalidDeclaration,
              fmt::format("kernel '{}': parameter {} points to '{}', whose dtype the variant does "
                          "not fix",
                          request.kernel->id, binding.name, pointer.tensor),
              kWhere);
}

Result<std::int64_t> variant_integer(const CompileRequest& request, std::string_view text) {
  const ValueMap symbols = symbols_of(request);
  const auto parsed = Expression::parse(text);
  const auto value = parsed ? parsed->evaluate_int(lookup_in(symbols)) : fail(parsed.error());
  if (value) return value;
  return fail(Code::kInvalidDeclaration,
              fmt::format("kernel '{}': '{}' over tunables, baked attributes and dtypes: {}",
                          request.kernel->id, text, value.error().message),
              kWhere);
}

Result<std::map<std::string, std::int64_t>> dsl_options(const CompileRequest& request,
                                                        std::span<const std::string_view> known) {
  std::map<std::string, std::int64_t> options;
  for (const std::string& text : request.kernel->options) {
    OPFORGE_ASSIGN(const OptionText option, parse_option(request, text));
    if (std::find(known.begin(), known.end(), option.name) == known.end()) {
      return fail(
          Code::kInvalidDeclaration,
          fmt::format("kernel '{}': unknown option '{}' of {}; there are {}", request.kernel->id,
                      option.name, request.kernel->backend, fmt::join(known, ", ")),
          kWhere);
    }
    if (option.is_list) continue;
    OPFORGE_ASSIGN(const std::int64_t value, variant_integer(request, option.value));
    options[option.name] = value;
  }
  return options;
}

Result<std::vector<std::string>> dsl_option_list(const CompileRequest& request,
                                                 std::string_view name) {
  std::vector<std::string> names;
  for (const std::string& text : request.kernel->options) {
    OPFORGE_ASSIGN(const OptionText option, parse_option(request, text));
    if (option.name != name) continue;
    if (!option.is_list) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("kernel '{}': option '{}' needs its condition: {}(1)={}",
                              request.kernel->id, text, name, option.value),
                  kWhere);
    }
    OPFORGE_ASSIGN(const std::int64_t holds, variant_integer(request, option.condition));
    if (holds == 0) continue;
    for (const std::string& part : split(option.value, ',')) names.emplace_back(trim(part));
  }
  return names;
}

Status check_block_limits(const Target& target, std::int64_t threads, std::int64_t shared_bytes,
                          std::string_view subject) {
  if (threads < 1 || threads > kMostThreads) {
    return fail(Code::kToolchain,
                fmt::format("{}: a block of {} threads; a device of {} takes {} at most", subject,
                            threads, target.name, kMostThreads),
                kWhere);
  }
  if (shared_bytes > most_shared(target)) {
    return fail(Code::kToolchain,
                fmt::format("{}: {} bytes of shared memory; a block of {} has {} at most", subject,
                            shared_bytes, target.name, most_shared(target)),
                kWhere);
  }
  return {};
}

std::vector<std::uint32_t> parameter_sizes(const LaunchStep& step) {
  std::vector<std::uint32_t> sizes;
  for (const Binding& binding : step.bindings) {
    sizes.push_back(binding.type == ParamType::kBytes
                        ? binding.size_bytes
                        : static_cast<std::uint32_t>(param_size_bytes(binding.type)));
  }
  return sizes;
}

Status check_parameters(const CubinKernel& kernel, std::span<const std::uint32_t> sizes,
                        std::string_view subject) {
  if (kernel.params.size() != sizes.size()) {
    return fail(Code::kToolchain,
                fmt::format("{}: {} was compiled with {} parameters, the launch record has {}",
                            subject, kernel.symbol, kernel.params.size(), sizes.size()),
                kWhere);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (kernel.params[i].size_bytes == sizes[i]) continue;
    return fail(Code::kToolchain,
                fmt::format("{}: parameter {} of {} was compiled as {} bytes, the launch record "
                            "has {}",
                            subject, i, kernel.symbol, kernel.params[i].size_bytes, sizes[i]),
                kWhere);
  }
  return {};
}

}  // namespace opforge
