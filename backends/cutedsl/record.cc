#include "backends/cutedsl/record.hpp"

#include <fmt/format.h>

namespace opforge::cutedsl {
namespace {

constexpr const char* kWhere = "backends/cutedsl/record";

Result<std::string> type_of(const CompileRequest& request, const Binding& binding) {
  switch (binding.type) {
    case ParamType::kI32:
    case ParamType::kI64:
    case ParamType::kU32:
    case ParamType::kU64:
    case ParamType::kF32:
    case ParamType::kF64:
      return std::string(param_type_name(binding.type));
    case ParamType::kPtr: {
      OPFORGE_ASSIGN(const std::optional<DType> dtype, pointee(request, binding));
      return "ptr:" + std::string(dtype ? dtype_name(*dtype) : "u8");
    }
    default:
      return fail(
          Code::kInvalidDeclaration,
          fmt::format("{}: parameter '{}' is of type {}, which CuTe DSL kernels do not take "
                      "here: pointers and scalars are",
                      dsl_subject(request), binding.name, param_type_name(binding.type)),
          kWhere);
  }
}

}  // namespace

Result<nlohmann::json> question(const CompileRequest& request) {
  const LaunchRecord& launch = request.kernel->launch;
  if (launch.steps.size() != 1 || launch.steps.front().kind != StepKind::kKernel) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}': a CuTe DSL kernel is one launch", request.kernel->id),
                kWhere);
  }
  OPFORGE_TRY(dsl_options(request, {}));
  const LaunchStep& step = launch.steps.front();
  nlohmann::json params = nlohmann::json::array();
  for (const Binding& binding : step.bindings) {
    OPFORGE_ASSIGN(std::string type, type_of(request, binding));
    const int align = binding.type == ParamType::kPtr ? kPointerAlign : 0;
    params.push_back({binding.name, std::move(type), align});
  }
  return nlohmann::json{{"entry", step.entry}, {"params", std::move(params)}};
}

Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer) {
  const auto wrong = [&](std::string_view what) {
    return fail(Code::kToolchain, fmt::format("{}: {}", dsl_subject(request), what), kWhere);
  };
  LaunchRecord record = request.kernel->launch;
  LaunchStep& step = record.steps.front();
  std::vector<std::int64_t> block;
  std::int64_t shared = -1;
  try {
    block = answer.at("block").get<std::vector<std::int64_t>>();
    shared = answer.at("shared").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    return wrong(fmt::format("the worker's answer has another form: {}", error.what()));
  }
  if (block.size() != 3 || shared < 0) return wrong("the worker's answer is no launch");
  for (std::size_t i = 0; i < 3; ++i) {
    if (!step.block[i].empty()) {
      OPFORGE_ASSIGN(const std::int64_t declared, variant_integer(request, step.block[i]));
      if (declared != block[i]) {
        return wrong(
            fmt::format("its host code launches blocks of {} x {} x {}, the declaration "
                        "says {} in place {}",
                        block[0], block[1], block[2], declared, i));
      }
    }
    step.block[i] = std::to_string(block[i]);
  }
  step.shared_bytes = shared > 0 ? std::to_string(shared) : "";
  for (const Binding& binding : step.bindings) {
    if (binding.type != ParamType::kPtr) continue;
    OPFORGE_ASSIGN(const PointerValue pointer, parse_pointer(binding.value));
    if (pointer.base != PointerValue::Base::kTensor) continue;
    record.guards.push_back({fmt::format("{}.align >= {}", pointer.tensor, kPointerAlign),
                             fmt::format("{} must start at a 16-byte boundary", pointer.tensor)});
  }
  return record;
}

}  // namespace opforge::cutedsl
