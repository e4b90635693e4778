#include "backends/triton/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace opforge::triton {
namespace {

constexpr const char* kWhere = "backends/triton/record";
constexpr std::string_view kOptions[] = {
    "num_warps",        "num_stages",      "num_ctas",
    "maxnreg",          "waves_per_eu",    "matrix_instr_nonkdim",
    "enable_fp_fusion", "divisible_by_16", "equal_to_1"};

tl::unexpected<Error> wrong(const CompileRequest& request, std::string message) {
  return fail(Code::kInvalidDeclaration,
              fmt::format("kernel '{}': {}", request.kernel->id, message), kWhere);
}

tl::unexpected<Error> strange(const CompileRequest& request, std::string message) {
  return fail(Code::kToolchain, fmt::format("{}: {}", dsl_subject(request), message), kWhere);
}

std::string_view triton_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "fp64";
    case DType::kF32:
      return "fp32";
    case DType::kF16:
      return "fp16";
    case DType::kBF16:
      return "bf16";
    case DType::kBool:
      return "i1";
    case DType::kF8E4M3:
      return "fp8e4nv";
    case DType::kF8E5M2:
      return "fp8e5";
    default:
      return dtype_name(dtype);
  }
}

// A descriptor's block from its declared box, outermost first: "[128,64]".
Result<std::string> block_of(const CompileRequest& request, const Binding& binding) {
  std::string block;
  for (auto it = binding.tensor_map.box.rbegin(); it != binding.tensor_map.box.rend(); ++it) {
    OPFORGE_ASSIGN(const std::int64_t size, variant_integer(request, *it));
    block += fmt::format("{}{}", block.empty() ? "" : ",", size);
  }
  return "[" + block + "]";
}

Result<std::string> type_of(const CompileRequest& request, const Binding& binding) {
  switch (binding.type) {
    case ParamType::kPtr:
    case ParamType::kTensorMap: {
      OPFORGE_ASSIGN(const auto dtype, pointee(request, binding));
      const std::string_view name = dtype ? triton_name(*dtype) : "u8";
      if (binding.type == ParamType::kPtr) return fmt::format("*{}", name);
      OPFORGE_ASSIGN(const std::string block, block_of(request, binding));
      return fmt::format("tensordesc<{}{}>", name, block);
    }
    case ParamType::kF16:
      return std::string("fp16");
    case ParamType::kF32:
      return std::string("fp32");
    case ParamType::kF64:
      return std::string("fp64");
    case ParamType::kBytes:
      return wrong(request, fmt::format("parameter {}: Triton takes no aggregates", binding.name));
    default:
      return std::string(param_type_name(binding.type));
  }
}

// "x + 16" -> what must be a multiple of 16 for the pointer to be.
Result<std::string> promise_of(const CompileRequest& request, const Binding& binding) {
  if (is_integer_param(binding.type)) return fmt::format("({}) % 16 == 0", binding.value);
  if (binding.type != ParamType::kPtr)
    return wrong(request, fmt::format("divisible_by_16 names {}, which is no pointer or integer",
                                      binding.name));
  OPFORGE_ASSIGN(const PointerValue pointer, parse_pointer(binding.value));
  if (pointer.base != PointerValue::Base::kTensor)
    return wrong(request,
                 fmt::format("divisible_by_16 names {}, which is no tensor", binding.name));
  std::string text = fmt::format("{}.align >= 16", pointer.tensor);
  const std::string& added = pointer.add_bytes.text();
  if (!added.empty() && added != "0") text += fmt::format(" && ({}) % 16 == 0", added);
  return text;
}

const Binding* find_binding(const LaunchStep& step, std::string_view name) {
  for (const Binding& binding : step.bindings) {
    if (binding.name == name) return &binding;
  }
  return nullptr;
}

Result<const LaunchStep*> only_step(const CompileRequest& request) {
  const auto& steps = request.kernel->launch.steps;
  const LaunchStep* found = nullptr;
  for (const LaunchStep& step : steps) {
    if (step.kind != StepKind::kKernel) continue;
    if (found != nullptr)
      return wrong(request, "a Triton kernel launches one entry; declare the others by themselves");
    found = &step;
  }
  if (found == nullptr) return wrong(request, "it launches nothing");
  return found;
}

// Guards for what was promised to the compiler.
Status add_promises(const CompileRequest& request, const LaunchStep& step, LaunchRecord& record) {
  OPFORGE_ASSIGN(const auto divisible, dsl_option_list(request, "divisible_by_16"));
  OPFORGE_ASSIGN(const auto ones, dsl_option_list(request, "equal_to_1"));
  for (const std::string& name : divisible) {
    const Binding* binding = find_binding(step, name);
    if (binding == nullptr)
      return wrong(request, fmt::format("divisible_by_16 names '{}', which is not bound", name));
    if (std::find(ones.begin(), ones.end(), name) != ones.end()) continue;
    OPFORGE_ASSIGN(std::string promise, promise_of(request, *binding));
    record.guards.push_back({promise, fmt::format("this code needs {} ({})", name, promise)});
  }
  for (const std::string& name : ones) {
    const Binding* binding = find_binding(step, name);
    if (binding == nullptr || !is_integer_param(binding->type))
      return wrong(request,
                   fmt::format("equal_to_1 names '{}', which is no integer parameter", name));
    record.guards.push_back({fmt::format("({}) == 1", binding->value),
                             fmt::format("this code needs {} to be 1", name)});
  }
  return {};
}

// ---- Tensor descriptors

// Triton's numbers of descriptor elements, from its metadata.
std::optional<DType> element_of(int number) {
  switch (number) {
    case 6:
      return DType::kF16;
    case 7:
      return DType::kF32;
    case 8:
      return DType::kF64;
    case 9:
      return DType::kBF16;
    case 0:
      return DType::kU8;
    case 3:
      return DType::kI32;
    default:
      return std::nullopt;
  }
}

// The declared descriptor with the box and swizzle that were compiled in.
Status complete_map(const CompileRequest& request, const nlohmann::json& meta, Binding& binding) {
  TensorMapSpec& map = binding.tensor_map;
  const auto box = meta.value("block_size", std::vector<std::int64_t>{});
  if (box.size() != map.dims.size() || meta.value("is_im2col", false) ||
      meta.value("fp4_padded", false)) {
    return strange(request, fmt::format("descriptor {}: its metadata {} does not fit a declared "
                                        "rank of {}",
                                        binding.name, meta.dump(), map.dims.size()));
  }
  OPFORGE_ASSIGN(const auto dtype, pointee(request, binding));
  const auto element = element_of(meta.value("elem_type", -1));
  const bool bytes_only = dtype && itemsize(*dtype) == 1 && element == DType::kU8;
  if (!dtype || (element != dtype && !bytes_only)) {
    return strange(request,
                   fmt::format("descriptor {}: element type {} of its metadata is not that "
                               "of the tensor",
                               binding.name, meta.value("elem_type", -1)));
  }
  map.element = dtype_name(*dtype);
  map.box.clear();
  for (auto it = box.rbegin(); it != box.rend(); ++it) map.box.push_back(std::to_string(*it));
  map.swizzle = meta.value("swizzle", 0);
  map.interleave = 0;
  map.l2_promotion = 2;  // 128 bytes, as Triton's own launcher
  binding.value.clear();
  return {};
}

// Sizes of the descriptor's dims (outermost first) and strides in elements.
Binding part_of(const Binding& declared, const std::string& part, ParamType type) {
  const TensorMapSpec& map = declared.tensor_map;
  const std::size_t rank = map.dims.size();
  const bool shape = part.starts_with("shape");
  const auto index = static_cast<std::size_t>(part.back() - '0');
  const std::size_t inner = rank - 1 - index;  // as the spec counts
  std::string value = shape        ? map.dims[inner]
                      : inner == 0 ? "1"
                                   : fmt::format("({}) / {}.itemsize", map.strides[inner - 1],
                                                 map.base.substr(0, map.base.find_first_of(" +")));
  return {.name = fmt::format("{}_{}", declared.name, part),
          .type = type,
          .value = std::move(value),
          .tensor_map = {}};
}

std::optional<ParamType> param_type(std::string_view kind) {
  for (int i = 0; i <= static_cast<int>(ParamType::kF64); ++i) {
    if (param_type_name(static_cast<ParamType>(i)) == kind) return static_cast<ParamType>(i);
  }
  if (kind == "i1") return ParamType::kI8;
  return std::nullopt;
}

// One parameter of the compiled kernel from the declared bindings.
Result<Binding> bind_one(const CompileRequest& request, const LaunchStep& declared,
                         const std::string& name, const std::string& kind,
                         const nlohmann::json& descriptors, std::size_t& next_descriptor) {
  const std::size_t dot = name.find('.');
  const Binding* binding = find_binding(declared, name.substr(0, dot));
  if (binding == nullptr)
    return strange(request, fmt::format("compiled parameter {} has no binding", name));
  if (dot != std::string::npos) {
    const std::string part = name.substr(dot + 1);
    if (part == "nan" || part == "tf32") {
      return Binding{.name = fmt::format("{}_{}", binding->name, part),
                     .type = ParamType::kI8,
                     .value = "0",
                     .tensor_map = {}};
    }
    return part_of(*binding, part, kind == "i32" ? ParamType::kI32 : ParamType::kI64);
  }
  Binding bound = *binding;
  if (kind == "tensor_map") {
    if (next_descriptor >= descriptors.size())
      return strange(request, "fewer descriptors in the metadata than in the signature");
    OPFORGE_TRY(complete_map(request, descriptors[next_descriptor++], bound));
  } else if (binding->type == ParamType::kTensorMap) {
    bound.type = ParamType::kPtr;  // targets without descriptors take the pointer
    bound.value = binding->tensor_map.base;
    bound.tensor_map = {};
  } else if (param_type(kind) != binding->type) {
    return strange(request, fmt::format("parameter {} was compiled as {}, and is declared as {}",
                                        name, kind, param_type_name(binding->type)));
  }
  return bound;
}

// Scratch memory: a workspace of the record, behind the declared one.
void add_scratch(const nlohmann::json& answer, LaunchStep& step, LaunchRecord& record) {
  Binding scratch{
      .name = "global_scratch", .type = ParamType::kPtr, .value = "null", .tensor_map = {}};
  const std::int64_t bytes = answer.value("scratch", std::int64_t{0});
  if (bytes > 0) {
    const std::int64_t align = std::max<std::int64_t>(1, answer.value("scratch_align", 1));
    std::string blocks;
    for (const std::string& dim : step.grid)
      if (!dim.empty()) blocks += fmt::format(" * ({})", dim);
    const std::string size = fmt::format("{}{}", bytes, blocks);
    if (record.workspace_bytes.empty()) {
      scratch.value = "workspace";
      record.workspace_bytes = size;
    } else {
      const std::string offset = fmt::format("round_up({}, {})", record.workspace_bytes, align);
      scratch.value = "workspace + " + offset;
      record.workspace_bytes = fmt::format("{} + {}", offset, size);
    }
    record.workspace_align = std::max(record.workspace_align, static_cast<std::uint32_t>(align));
  }
  step.bindings.push_back(std::move(scratch));
  step.bindings.push_back(
      {.name = "profile_scratch", .type = ParamType::kPtr, .value = "null", .tensor_map = {}});
}

}  // namespace

std::span<const std::string_view> known_options() { return kOptions; }

Result<nlohmann::json> question(const CompileRequest& request) {
  OPFORGE_ASSIGN(const LaunchStep* step, only_step(request));
  nlohmann::json params = nlohmann::json::array();
  for (const Binding& binding : step->bindings) {
    OPFORGE_ASSIGN(const std::string type, type_of(request, binding));
    params.push_back({binding.name, type});
  }
  OPFORGE_ASSIGN(const auto divisible, dsl_option_list(request, "divisible_by_16"));
  OPFORGE_ASSIGN(const auto ones, dsl_option_list(request, "equal_to_1"));
  OPFORGE_ASSIGN(const auto options, dsl_options(request, kOptions));
  return nlohmann::json{{"entry", step->entry},
                        {"params", params},
                        {"divisible", divisible},
                        {"ones", ones},
                        {"options", options}};
}

namespace {

Result<LaunchRecord> record_of(const CompileRequest& request, const nlohmann::json& answer) {
  OPFORGE_ASSIGN(const LaunchStep* declared, only_step(request));
  LaunchRecord record = request.kernel->launch;
  LaunchStep* step = nullptr;
  for (LaunchStep& each : record.steps)
    if (each.kind == StepKind::kKernel) step = &each;
  step->bindings.clear();
  const auto params = answer.value("params", nlohmann::json::array());
  const auto descriptors = answer.value("descriptors", nlohmann::json::array());
  std::size_t next_descriptor = 0;
  for (const auto& param : params) {
    const std::string name = param.at(0), kind = param.at(1);
    if (name == "global_scratch" || name == "profile_scratch") continue;
    OPFORGE_ASSIGN(Binding bound,
                   bind_one(request, *declared, name, kind, descriptors, next_descriptor));
    step->bindings.push_back(std::move(bound));
  }
  if (answer.value("profile_scratch", 0) != 0)
    return strange(request, "it was compiled with profiling, which has no launch record");
  const std::int64_t ctas = answer.value("num_ctas", std::int64_t{1});
  if (ctas > 1) {
    step->cluster[0] = std::to_string(ctas);
    step->grid[0] = fmt::format("{} * ({})", ctas, step->grid[0].empty() ? "1" : step->grid[0]);
  }
  add_scratch(answer, *step, record);
  step->block = {std::to_string(answer.value("num_warps", 0) * answer.value("warp_size", 32)), "",
                 ""};
  step->shared_bytes = std::to_string(answer.value("shared", 0));
  step->cooperative = answer.value("cooperative", false);
  step->programmatic = answer.value("pdl", false);
  OPFORGE_TRY(add_promises(request, *declared, record));
  return record;
}

}  // namespace

Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer) {
  try {
    return record_of(request, answer);
  } catch (const nlohmann::json::exception& error) {
    return strange(request, fmt::format("the worker's answer is malformed: {}", error.what()));
  }
}

}  // namespace opforge::triton
