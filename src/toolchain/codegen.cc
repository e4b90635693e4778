#include "toolchain/codegen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/codegen";

Result<std::string> c_type_of(DType dtype, std::string_view what) {
  switch (dtype) {
    case DType::kF64:
      return "double";
    case DType::kF32:
      return "float";
    case DType::kF16:
      return "opforge::f16";
    case DType::kBF16:
      return "opforge::bf16";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
      return "unsigned char";
    case DType::kI32:
      return "int";
    case DType::kU32:
      return "unsigned int";
    case DType::kI64:
      return "long long";
    case DType::kU64:
      return "unsigned long long";
    case DType::kBool:
      return "bool";
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  return fail(Code::kInvalidDeclaration,
              fmt::format("{}: no C type for dtype {} yet", what, dtype_name(dtype)), kWhere);
}

const char* c_type_of(ParamType type) {
  switch (type) {
    case ParamType::kPtr:
      return "void*";
    case ParamType::kI8:
      return "signed char";
    case ParamType::kI32:
      return "int";
    case ParamType::kI64:
      return "long long";
    case ParamType::kU32:
      return "unsigned int";
    case ParamType::kU64:
      return "unsigned long long";
    case ParamType::kF16:
      return "opforge::f16";
    case ParamType::kBF16:
      return "opforge::bf16";
    case ParamType::kF32:
      return "float";
    case ParamType::kF64:
      return "double";
    case ParamType::kTensorMap:
      return "opforge::TensorMap";
    case ParamType::kBytes:
      break;
  }
  return nullptr;
}

Result<std::string> baked_member(const AttrArg& attribute, const Value& value) {
  const std::string& name = attribute.name;
  switch (attribute.type) {
    case AttrType::kBool:
    case AttrType::kInt:
      if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        return attribute.type == AttrType::kBool
                   ? fmt::format("static constexpr bool {} = {};", name, *whole != 0)
                   : fmt::format("static constexpr long long {} = {}ll;", name, *whole);
      }
      break;
    case AttrType::kFloat: {
      const auto* real = std::get_if<double>(&value);
      const auto* whole = std::get_if<std::int64_t>(&value);
      if (real == nullptr && whole == nullptr) break;
      return fmt::format("static constexpr double {} = {:a};", name,
                         real != nullptr ? *real : double(*whole));
    }
    case AttrType::kText:
      if (const auto* text = std::get_if<std::string>(&value)) {
        const auto at = std::find(attribute.choices.begin(), attribute.choices.end(), *text);
        if (at != attribute.choices.end()) {
          return fmt::format("static constexpr int {} = {};", name, at - attribute.choices.begin());
        }
      }
      break;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("baked attribute '{}' has no value of its type in this variant: {}", name,
                          to_string(value)),
              kWhere);
}

}  // namespace

Result<std::string> variant_struct(const Signature& signature, const Variant& variant) {
  std::string text = "struct V {\n";
  for (const auto& [variable, dtype] : variant.dtypes) {
    OPFORGE_ASSIGN(std::string type, c_type_of(dtype, variable));
    text += fmt::format("  using {} = {};\n", variable, type);
  }
  for (const auto& [name, value] : variant.values) {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (whole == nullptr) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: '{}' is not an integer", to_string(variant), name), kWhere);
    }
    text += fmt::format("  static constexpr long long {} = {}ll;\n", name, *whole);
  }
  for (const auto& [name, value] : variant.baked) {
    const AttrArg* attribute = find_attribute(signature, name);
    if (attribute == nullptr) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{} has no attribute '{}'", signature.name, name), kWhere);
    }
    OPFORGE_ASSIGN(std::string member, baked_member(*attribute, value));
    text += "  " + member + "\n";
  }
  return text + "};\n";
}

Result<std::vector<EntryParameter>> entry_parameters(const Signature& signature,
                                                     const LaunchStep& step) {
  std::vector<EntryParameter> parameters;
  for (const Binding& binding : step.bindings) {
    const char* type = c_type_of(binding.type);
    if (type == nullptr) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("entry '{}': parameter '{}' is an aggregate, which only precompiled "
                              "kernels take; bind its "
                              "fields as scalars",
                              step.entry, binding.name),
                  kWhere);
    }
    EntryParameter parameter{binding.type, type, fmt::format("p{}", parameters.size())};
    if (binding.type == ParamType::kPtr) {
      const std::string name(trim(split(binding.value + "+", '+').front()));
      const TensorArg* tensor = find_tensor(signature, name);
      if (tensor != nullptr && tensor->access == Access::kRead) parameter.c_type = "const void*";
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::vector<const LaunchStep*> entry_steps(const LaunchRecord& launch) {
  std::vector<const LaunchStep*> steps;
  std::set<std::string_view> seen;
  for (const LaunchStep& step : launch.steps) {
    if (step.kind == StepKind::kKernel && seen.insert(step.entry).second) steps.push_back(&step);
  }
  return steps;
}

std::string identifier(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out.front())) != 0)
    out.insert(out.begin(), '_');
  return out;
}

std::string entry_symbol(const Variant& variant, const Digest& code_key, std::string_view entry) {
  return fmt::format("{}__{}__{}", identifier(variant.op), identifier(entry), code_key.short_hex());
}

}  // namespace opforge
