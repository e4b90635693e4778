#include "backends/tilelang/record.hpp"

#include <fmt/format.h>

#include <array>

namespace opforge::tilelang {
namespace {

constexpr const char* kWhere = "backends/tilelang/record";
constexpr std::array<std::string_view, 2> kOptions{"fast_math", "tma"};
// What a descriptor asks of memory: the driver refuses less.
constexpr int kMapAlign = 16;

// CUtensorMapDataType.
const char* element_name(int number) {
  constexpr std::array<const char*, 10> kNames{"u8",  "",    "u32", "i32", "u64",
                                               "i64", "f16", "f32", "f64", "bf16"};
  return number < 0 || number >= static_cast<int>(kNames.size())
             ? ""
             : kNames[static_cast<std::size_t>(number)];
}

class Reader {
 public:
  explicit Reader(const CompileRequest& request)
      : request_(request), subject_(dsl_subject(request)) {
    for (const LaunchStep& step : request.kernel->launch.steps) {
      for (const Binding& binding : step.bindings) declared_[binding.name] = &binding;
    }
  }

  Result<LaunchStep> step(const nlohmann::json& kernel) {
    LaunchStep step;
    step.entry = kernel.at("entry").get<std::string>();
    for (std::size_t i = 0; i < 3; ++i) {
      OPFORGE_ASSIGN(step.grid[i], expression(kernel.at("grid").at(i).get<std::string>()));
      OPFORGE_ASSIGN(step.block[i], expression(kernel.at("block").at(i).get<std::string>()));
    }
    OPFORGE_ASSIGN(step.shared_bytes, expression(kernel.at("shared").get<std::string>()));
    for (const nlohmann::json& parameter : kernel.at("params")) {
      OPFORGE_ASSIGN(Binding binding, bind(parameter));
      step.bindings.push_back(std::move(binding));
    }
    return step;
  }

  std::vector<Guard> guards;

 private:
  tl::unexpected<Error> wrong(Code code, std::string_view what) const {
    return fail(code, fmt::format("{}: {}", subject_, what), kWhere);
  }

  // {name} in the host code's expressions: what the declared binding of that name passes.
  Result<std::string> expression(std::string text) const {
    for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at)) {
      const std::size_t end = text.find('}', at);
      const std::string name = text.substr(at + 1, end - at - 1);
      OPFORGE_ASSIGN(const Binding* binding, declared(name));
      const std::string value = "(" + binding->value + ")";
      text.replace(at, end - at + 1, value);
      at += value.size();
    }
    return text;
  }

  Result<const Binding*> declared(const std::string& name) const {
    const auto found = declared_.find(name);
    if (found != declared_.end() && found->second->type != ParamType::kPtr) return found->second;
    return wrong(
        Code::kInvalidDeclaration,
        fmt::format("its host code uses '{}', for which the launch record binds no scalar", name));
  }

  Result<std::string> tensor(const std::string& name) const {
    if (find_tensor(request_.op->signature, name) != nullptr) return name;
    return wrong(Code::kInvalidDeclaration,
                 fmt::format("'{}' is no tensor of {}", name, request_.op->signature.name));
  }

  Result<Binding> bind(const nlohmann::json& parameter) {
    Binding binding;
    binding.name = parameter.at("name").get<std::string>();
    const std::string kind = parameter.at("kind").get<std::string>();
    if (kind == "pointer") {
      OPFORGE_ASSIGN(binding.value, tensor(parameter.at("tensor").get<std::string>()));
      return binding;
    }
    if (kind == "tensor_map") return map(std::move(binding), parameter);
    OPFORGE_ASSIGN(const Binding* scalar, declared(binding.name));
    const std::map<std::string, ParamType> types{{"int32", ParamType::kI32},
                                                 {"int64", ParamType::kI64},
                                                 {"float32", ParamType::kF32},
                                                 {"float64", ParamType::kF64}};
    const auto type = types.find(kind);
    if (type == types.end()) {
      return wrong(Code::kInvalidDeclaration,
                   fmt::format("parameter '{}' is a {}", binding.name, kind));
    }
    binding.type = type->second;
    binding.value = scalar->value;
    return binding;
  }

  Result<Binding> map(Binding binding, const nlohmann::json& parameter) {
    binding.type = ParamType::kTensorMap;
    TensorMapSpec& spec = binding.tensor_map;
    OPFORGE_ASSIGN(spec.base, tensor(parameter.at("tensor").get<std::string>()));
    spec.element = element_name(parameter.at("dtype").get<int>());
    if (spec.element.empty()) {
      return wrong(Code::kToolchain, fmt::format("'{}' has elements of driver type {}",
                                                 binding.name, parameter.at("dtype").dump()));
    }
    const auto list = [&](const char* name, std::vector<std::string>& into) -> Status {
      for (const nlohmann::json& one : parameter.at(name)) {
        OPFORGE_ASSIGN(std::string value, expression(one.get<std::string>()));
        into.push_back(std::move(value));
      }
      return {};
    };
    OPFORGE_TRY(list("dims", spec.dims));
    OPFORGE_TRY(list("strides", spec.strides));
    OPFORGE_TRY(list("box", spec.box));
    OPFORGE_TRY(list("element_strides", spec.element_strides));
    const auto modes = parameter.at("modes").get<std::vector<int>>();
    if (modes.size() != 4)
      return wrong(Code::kToolchain, fmt::format("'{}' has not four modes", binding.name));
    spec.interleave = modes[0], spec.swizzle = modes[1];
    spec.l2_promotion = modes[2], spec.oob_fill = modes[3];
    // TileLang does not check what the driver wants.
    guards.push_back({fmt::format("{}.align >= {}", spec.base, kMapAlign),
                      fmt::format("a descriptor needs {} at a 16-byte boundary", spec.base)});
    for (const std::string& stride : spec.strides) {
      guards.push_back(
          {fmt::format("{} % {} == 0", stride, kMapAlign),
           fmt::format("a descriptor needs strides of {} that are multiples of 16 bytes",
                       spec.base)});
    }
    for (const std::string& dim : spec.dims) {
      guards.push_back({fmt::format("{} > 0", dim),
                        fmt::format("a descriptor needs dims of {} above 0", spec.base)});
    }
    return binding;
  }

  const CompileRequest& request_;
  std::string subject_;
  std::map<std::string, const Binding*> declared_;
};

}  // namespace

std::span<const std::string_view> known_options() { return kOptions; }

Result<TileKernels> launch_record(const CompileRequest& request, const nlohmann::json& answer) {
  TileKernels out;
  out.record = request.kernel->launch;
  out.record.steps.clear();
  Reader reader(request);
  try {
    for (const nlohmann::json& kernel : answer.at("kernels")) {
      OPFORGE_ASSIGN(LaunchStep step, reader.step(kernel));
      out.entries.push_back(step.entry);
      out.record.steps.push_back(std::move(step));
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kToolchain,
                fmt::format("{}: the worker's answer has another form: {}", dsl_subject(request),
                            error.what()),
                kWhere);
  }
  if (out.entries.empty()) {
    return fail(Code::kToolchain, fmt::format("{}: it launches nothing", dsl_subject(request)),
                kWhere);
  }
  out.record.guards.insert(out.record.guards.end(), reader.guards.begin(), reader.guards.end());
  return out;
}

}  // namespace opforge::tilelang
