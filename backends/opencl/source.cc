#include "backends/opencl/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "operator/expression.hpp"
#include "toolchain/codegen.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/source";

class Flattener {
 public:
  explicit Flattener(const SourceSet& files) {
    for (const auto& [name, bytes] : files.files) files_[name] = &bytes;
  }

  Status add(const std::string& name) {
    if (!done_.insert(name).second) return {};
    const auto found = files_.find(name);
    if (found == files_.end()) {
      return fail(Code::kInvalidDeclaration, fmt::format("there is no source '{}'", name), kWhere);
    }
    text_ += fmt::format("#line 1 \"{}\"\n", name);
    std::int64_t number = 0;
    for (const std::string& line : split_lines(*found->second)) {
      ++number;
      const std::string_view rest = trim(line);
      if (rest == "#pragma once") {
        text_ += "\n";
        continue;
      }
      const std::string included = quoted_include(rest);
      if (included.empty()) {
        text_ += line + "\n";
        continue;
      }
      OPFORGE_TRY(add(resolve(name, included)));
      text_ += fmt::format("#line {} \"{}\"\n", number + 1, name);
    }
    return {};
  }

  std::string take() { return std::move(text_); }

 private:
  static std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  static std::string quoted_include(std::string_view line) {
    if (!line.starts_with("#")) return {};
    line = trim(line.substr(1));
    if (!line.starts_with("include")) return {};
    line = trim(line.substr(7));
    const std::size_t end =
        line.size() > 1 && line.front() == '"' ? line.find('"', 1) : std::string_view::npos;
    return end == std::string_view::npos ? std::string{} : std::string(line.substr(1, end - 1));
  }

  std::string resolve(const std::string& from, const std::string& name) const {
    const std::string beside =
        (Path(from).parent_path() / name).lexically_normal().generic_string();
    return files_.contains(beside) ? beside : Path(name).lexically_normal().generic_string();
  }

  std::map<std::string, const std::string*> files_;
  std::set<std::string> done_;
  std::string text_;
};

struct Storage {
  const char *type, *bits, *suffix;
};
Result<Storage> storage_of(DType dtype, std::string_view what) {
  switch (dtype) {
    case DType::kF32:
      return Storage{"float", "uint", "f32"};
    case DType::kF16:
      return Storage{"half", "ushort", "f16"};
    case DType::kBF16:
      return Storage{"ushort", "ushort", "bf16"};
    default:
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: OpenCL kernels here take f32, f16 and bf16, not {}", what,
                              dtype_name(dtype)),
                  kWhere);
  }
}

Result<std::string> dtype_lines(const Variant& variant) {
  std::string text;
  for (const auto& [name, dtype] : variant.dtypes) {
    OPFORGE_ASSIGN(const Storage s, storage_of(dtype, name));
    text += fmt::format("typedef {} {};\ntypedef {} {}_BITS;\n", s.type, name, s.bits, name);
    for (const char* what : {"LOAD", "LOAD8"})
      text += fmt::format("#define {0}_{1}(p, i) OPFORGE_{1}_{2}(p, i)\n", name, what, s.suffix);
    for (const char* what : {"STORE", "STORE8"}) {
      text +=
          fmt::format("#define {0}_{1}(p, i, v) OPFORGE_{1}_{2}(p, i, v)\n", name, what, s.suffix);
    }
  }
  return text;
}

Result<std::string> value_lines(const Signature& signature, const Variant& variant) {
  std::string text;
  for (const auto& [name, value] : variant.values)
    text += fmt::format("#define V_{} {}\n", name, to_string(value));
  for (const auto& [name, value] : variant.baked) {
    const AttrArg* attribute = find_attribute(signature, name);
    if (attribute == nullptr) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{} has no attribute '{}'", signature.name, name), kWhere);
    }
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      text += fmt::format("#define V_{} {}\n", name, *whole);
    } else if (const auto* real = std::get_if<double>(&value)) {
      text += fmt::format("#define V_{} {:a}\n", name, *real);
    } else {
      const auto& choices = attribute->choices;
      const auto at = std::find(choices.begin(), choices.end(), std::get<std::string>(value));
      text += fmt::format("#define V_{} {}\n", name, at - choices.begin());
    }
  }
  return text;
}

// The group size of a step when it follows from the variant alone; else empty.
std::string group_attribute(const LaunchStep& step, const Variant& variant) {
  ValueMap values = variant.values;
  values.insert(variant.baked.begin(), variant.baked.end());
  std::vector<std::string> sizes;
  for (const std::string& text : step.block) {
    if (text.empty()) {
      sizes.emplace_back("1");
      continue;
    }
    const auto parsed = Expression::parse(text);
    const auto value = parsed ? parsed->evaluate_int(lookup_in(values)) : fail(parsed.error());
    if (!value || *value < 1) return {};
    sizes.push_back(std::to_string(*value));
  }
  return fmt::format("__attribute__((reqd_work_group_size({}))) ", join(sizes, ", "));
}

const char* scalar_type(ParamType type) {
  switch (type) {
    case ParamType::kI8:
      return "char";
    case ParamType::kI32:
      return "int";
    case ParamType::kI64:
      return "long";
    case ParamType::kU32:
      return "uint";
    case ParamType::kU64:
      return "ulong";
    case ParamType::kF32:
      return "float";
    case ParamType::kF64:
      return "double";
    default:
      return nullptr;
  }
}

Result<std::string> parameter_type(const Signature& signature, const Variant& variant,
                                   const Binding& binding, const std::string& entry) {
  const std::string what = fmt::format("entry '{}': parameter '{}'", entry, binding.name);
  if (binding.type != ParamType::kPtr) {
    if (const char* type = scalar_type(binding.type)) return std::string(type);
    return fail(Code::kInvalidDeclaration,
                fmt::format("{} is of type {}, which OpenCL kernels do not take", what,
                            param_type_name(binding.type)),
                kWhere);
  }
  OPFORGE_ASSIGN(const PointerValue pointer, parse_pointer(binding.value));
  if (pointer.base != PointerValue::Base::kTensor) return std::string("global void*");
  const TensorArg* tensor = find_tensor(signature, pointer.tensor);
  if (tensor == nullptr) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("{}: {} has no tensor '{}'", what, signature.name, pointer.tensor),
                kWhere);
  }
  std::string type = tensor->dtype;
  if (!variant.dtypes.contains(type)) {
    OPFORGE_ASSIGN(const DType dtype, parse_dtype(type));
    OPFORGE_ASSIGN(const Storage storage, storage_of(dtype, what));
    type = storage.type;
  }
  return fmt::format("global {}{}*", tensor->access == Access::kRead ? "const " : "", type);
}

}  // namespace

Result<std::string> flatten(const SourceSet& files, const std::string& file) {
  Flattener flattener(files);
  OPFORGE_TRY(flattener.add(file));
  return flattener.take();
}

Result<GeneratedSource> generate_source(const CompileRequest& request, const SourceSet& files) {
  const Signature& signature = request.op->signature;
  GeneratedSource out;
  OPFORGE_ASSIGN(const std::string dtypes, dtype_lines(request.variant));
  OPFORGE_ASSIGN(const std::string values, value_lines(signature, request.variant));
  out.text = "#line 1 \"variant\"\n" + dtypes + values +
             "#define OPFORGE_KERNEL(entry) OPFORGE_KERNEL_##entry\n";
  std::string prototypes;
  for (const LaunchStep* step : entry_steps(request.kernel->launch)) {
    const std::string symbol = entry_symbol(request.variant, request.code_key, step->entry);
    std::vector<std::string> types;
    for (const Binding& binding : step->bindings) {
      OPFORGE_ASSIGN(std::string type,
                     parameter_type(signature, request.variant, binding, step->entry));
      types.push_back(std::move(type));
    }
    out.text += fmt::format("#define OPFORGE_KERNEL_{} kernel {}void {}\n", step->entry,
                            group_attribute(*step, request.variant), symbol);
    prototypes += fmt::format("#line 1 \"launch record of {}\"\nkernel void {}({});\n", step->entry,
                              symbol, join(types, ", "));
    out.symbols[step->entry] = symbol;
  }
  if (out.symbols.empty()) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}' launches nothing", request.kernel->id), kWhere);
  }
  Flattener flattener(files);
  OPFORGE_TRY(flattener.add("opforge_opencl.h"));
  OPFORGE_TRY(flattener.add(request.kernel->sources.front()));
  out.text += flattener.take() + prototypes;
  return out;
}

}  // namespace opforge::ocl
