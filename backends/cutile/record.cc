#include "backends/cutile/record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace opforge::cutile {
namespace {

constexpr const char* kWhere = "backends/cutile/record";
constexpr std::string_view kOptions[] = {"vectors"};

tl::unexpected<Error> wrong(const CompileRequest& request, std::string message) {
  return fail(Code::kInvalidDeclaration,
              fmt::format("kernel '{}': {}", request.kernel->id, message), kWhere);
}

Result<const LaunchStep*> only_step(const CompileRequest& request) {
  const auto& steps = request.kernel->launch.steps;
  if (steps.size() != 1 || steps[0].kind != StepKind::kKernel)
    return wrong(request, "a cuTile kernel has one launch step");
  return &steps[0];
}

const TensorArg* tensor_of(const CompileRequest& request, const Binding& binding) {
  for (const TensorArg& tensor : request.op->signature.tensors) {
    if (tensor.name == binding.value) return &tensor;
  }
  return nullptr;
}

// Tensors that may be the same memory, whichever of them says so.
bool may_overlap(const CompileRequest& request, const TensorArg& tensor) {
  if (!tensor.may_alias.empty()) return true;
  return std::any_of(request.op->signature.tensors.begin(), request.op->signature.tensors.end(),
                     [&](const TensorArg& other) {
                       return std::find(other.may_alias.begin(), other.may_alias.end(),
                                        tensor.name) != other.may_alias.end();
                     });
}

bool listed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<nlohmann::json> array_of(const CompileRequest& request, const Binding& binding,
                                const std::vector<std::string>& vectors) {
  const TensorArg* tensor = tensor_of(request, binding);
  if (tensor == nullptr || tensor->optional) {
    return wrong(request,
                 fmt::format("parameter {}: cuTile takes whole tensors that are there, not '{}'",
                             binding.name, binding.value));
  }
  OPFORGE_ASSIGN(const auto dtype, pointee(request, binding));
  return nlohmann::json{{"dtype", dtype_name(*dtype)},
                        {"rank", tensor->dims.size()},
                        {"group", may_overlap(request, *tensor) ? "shared" : ""},
                        {"vectors", listed(vectors, binding.name)},
                        {"read_only", tensor->access == Access::kRead}};
}

Binding part(const std::string& name, const std::string& of, ParamType type) {
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '.', '_');
  return {.name = plain, .type = type, .value = of, .tensor_map = {}};
}

// What "vectors" promises of a tensor: aligned, contiguous columns in rows that start at 16-byte
// boundaries and do not overlap.
void add_guards(const TensorArg& tensor, LaunchRecord& record) {
  const std::string& x = tensor.name;
  const std::size_t last = tensor.dims.size() - 1;
  record.guards.push_back({fmt::format("{}.align >= 16 && {}.stride{} == 1", x, x, last),
                           fmt::format("this code needs {} aligned to 16 bytes, with contiguous "
                                       "columns",
                                       x)});
  for (std::size_t i = 0; i < last; ++i) {
    record.guards.push_back(
        {fmt::format("{0}.stride{1} * {0}.itemsize % 16 == 0 && {0}.stride{1} >= {2}", x, i,
                     tensor.access == Access::kRead ? "0" : fmt::format("{}.dim{}", x, last)),
         fmt::format("this code needs rows of {} at multiples of 16 bytes", x)});
  }
}

Result<LaunchRecord> record_of(const CompileRequest& request, const nlohmann::json& answer) {
  OPFORGE_ASSIGN(const LaunchStep* declared, only_step(request));
  OPFORGE_ASSIGN(const auto vectors, dsl_option_list(request, "vectors"));
  LaunchRecord record = request.kernel->launch;
  LaunchStep& step = record.steps[0];
  step.bindings.clear();
  for (const auto& param : answer.at("params")) {
    const std::string name = param.at(0), kind = param.at(1);
    const std::size_t dot = name.find('.');
    const auto binding =
        std::find_if(declared->bindings.begin(), declared->bindings.end(),
                     [&](const Binding& each) { return each.name == name.substr(0, dot); });
    if (binding == declared->bindings.end()) {
      return fail(
          Code::kToolchain,
          fmt::format("{}: compiled parameter {} has no binding", dsl_subject(request), name),
          kWhere);
    }
    if (dot != std::string::npos)
      step.bindings.push_back(part(name, binding->value + name.substr(dot), ParamType::kI32));
    else
      step.bindings.push_back(*binding);
  }
  for (const Binding& binding : declared->bindings) {
    if (binding.type != ParamType::kPtr) continue;
    const TensorArg& tensor = *tensor_of(request, binding);
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
      record.guards.push_back(
          {fmt::format("{}.stride{} >= 0", tensor.name, i),
           fmt::format("cuTile has no negative strides, as of {}", tensor.name)});
    }
    if (listed(vectors, binding.name)) add_guards(tensor, record);
  }
  step.block = {"1", "1", "1"};
  step.shared_bytes = "0";
  return record;
}

}  // namespace

Result<nlohmann::json> question(const CompileRequest& request, const std::string& gpu) {
  OPFORGE_ASSIGN(const LaunchStep* step, only_step(request));
  OPFORGE_ASSIGN(const auto options, dsl_options(request, kOptions));
  OPFORGE_ASSIGN(const auto vectors, dsl_option_list(request, "vectors"));
  nlohmann::json arrays = nlohmann::json::object(), scalars = nlohmann::json::object();
  for (const Binding& binding : step->bindings) {
    if (binding.type == ParamType::kPtr) {
      OPFORGE_ASSIGN(arrays[binding.name], array_of(request, binding, vectors));
    } else if (is_integer_param(binding.type) || is_float_param(binding.type)) {
      scalars[binding.name] = param_type_name(binding.type);
    } else {
      return wrong(request,
                   fmt::format("parameter {}: cuTile takes arrays and scalars", binding.name));
    }
  }
  for (const std::string& name : vectors) {
    if (!arrays.contains(name))
      return wrong(request, fmt::format("vectors names '{}', which is no array", name));
  }
  return nlohmann::json{
      {"entry", step->entry}, {"arrays", arrays}, {"scalars", scalars}, {"gpu", gpu}};
}

Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer) {
  try {
    return record_of(request, answer);
  } catch (const nlohmann::json::exception& error) {
    return fail(
        Code::kToolchain,
        fmt::format("{}: the worker's answer is malformed: {}", dsl_subject(request), error.what()),
        kWhere);
  }
}

}  // namespace opforge::cutile
