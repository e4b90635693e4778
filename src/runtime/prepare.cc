// Launch records evaluated for a call: grids, argument blocks, patches.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/evaluate.hpp"
#include "runtime/plan.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "runtime/prepare";
constexpr std::uint32_t kSlotBytes = 8;
constexpr std::uint32_t kTensorMapAlign = 64;

// A pointer parameter: a tensor of the signature or the workspace, plus bytes; or null.
struct PointerTarget {
  std::int32_t tensor = -1;  // -1: workspace
  std::int64_t add_bytes = 0;
  bool null = false;
};

// Builds the steps of one record. Errors name the entry and the parameter.
class Preparer {
 public:
  Preparer(const Signature& signature, const BoundCall& call, const ValueMap& values,
           const DeviceInfo& device)
      : signature_(signature), evaluator_(signature, call, device), device_(device) {
    evaluator_.use_values(&values);
  }

  Result<PreparedLaunch> run(const LaunchRecord& record) {
    PreparedLaunch launch;
    if (!record.workspace_bytes.empty()) {
      OPFORGE_ASSIGN(const std::int64_t bytes, integer(record.workspace_bytes, "workspace_bytes"));
      if (bytes < 0) return negative("workspace_bytes", bytes);
      launch.workspace_bytes = static_cast<std::size_t>(bytes);
    }
    for (const LaunchStep& step : record.steps) {
      entry_ = step.kind == StepKind::kKernel ? step.entry : "memset";
      PreparedStep prepared;
      prepared.kind = step.kind;
      OPFORGE_TRY(step.kind == StepKind::kMemset ? memset_step(step, prepared)
                                                 : kernel_step(step, prepared));
      launch.steps.push_back(std::move(prepared));
    }
    return launch;
  }

 private:
  Result<std::int64_t> integer(const std::string& text, std::string_view what) {
    auto value = evaluator_.integer(text);
    if (!value) return fail(named(std::move(value.error()), what));
    return *value;
  }

  Error named(Error error, std::string_view what) const {
    error.message =
        fmt::format("{}: {} of entry '{}': {}", signature_.name, what, entry_, error.message);
    return error;
  }

  tl::unexpected<Error> negative(std::string_view what, std::int64_t value) const {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: {} of entry '{}' is {}, but must not be negative", signature_.name,
                            what, entry_, value),
                kWhere);
  }

  Status extents(const std::array<std::string, 3>& texts, std::string_view what,
                 std::uint32_t (&into)[3]) {
    for (int axis = 0; axis < 3; ++axis) {
      if (texts[axis].empty()) continue;
      const std::string label = fmt::format("{}.{}", what, "xyz"[axis]);
      OPFORGE_ASSIGN(const std::int64_t value, integer(texts[axis], label));
      if (value < 0) return negative(label, value);
      if (value > std::numeric_limits<std::uint32_t>::max()) {
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: {} of entry '{}' is {} (from \"{}\"), which no launch can "
                                "hold; split the call",
                                signature_.name, label, entry_, value, texts[axis]),
                    kWhere);
      }
      into[axis] = static_cast<std::uint32_t>(value);
    }
    return {};
  }

  Status kernel_step(const LaunchStep& step, PreparedStep& prepared) {
    if (device_.device.kind == DeviceKind::kCpu) {
      prepared.items = 1;
      if (!step.grid[0].empty()) {
        OPFORGE_ASSIGN(prepared.items, integer(step.grid[0], "grid.x"));
        if (prepared.items < 0) return negative("grid.x", prepared.items);
      }
      if (!step.block[0].empty()) {
        OPFORGE_ASSIGN(prepared.grain, integer(step.block[0], "block.x"));
        if (prepared.grain < 1) prepared.grain = 1;
      }
      if (prepared.items == 0) prepared.grid[0] = 0;
    } else {
      OPFORGE_TRY(extents(step.grid, "grid", prepared.grid));
      OPFORGE_TRY(extents(step.block, "block", prepared.block));
      OPFORGE_TRY(extents(step.cluster, "cluster", prepared.cluster));
      const bool clustered =
          !(step.cluster[0].empty() && step.cluster[1].empty() && step.cluster[2].empty());
      for (auto& extent : prepared.cluster) {
        if (clustered && extent == 0) extent = 1;
      }
    }
    if (!step.shared_bytes.empty()) {
      OPFORGE_ASSIGN(const std::int64_t bytes, integer(step.shared_bytes, "shared_bytes"));
      if (bytes < 0) return negative("shared_bytes", bytes);
      if (bytes > std::numeric_limits<std::uint32_t>::max()) {
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: entry '{}' asks for {} bytes of shared memory",
                                signature_.name, entry_, bytes),
                    kWhere);
      }
      prepared.shared_bytes = static_cast<std::uint32_t>(bytes);
    }
    prepared.cooperative = step.cooperative;
    prepared.programmatic = step.programmatic;
    for (const Binding& binding : step.bindings) OPFORGE_TRY(bind(binding, prepared));
    return {};
  }

  Status memset_step(const LaunchStep& step, PreparedStep& prepared) {
    OPFORGE_ASSIGN(const PointerTarget target, pointer(step.memset_target, "memset target"));
    if (target.null) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: a memset step has no target", signature_.name));
    }
    prepared.memset_tensor = target.tensor;
    prepared.memset_add_bytes = target.add_bytes;
    OPFORGE_ASSIGN(prepared.memset_bytes, integer(step.memset_bytes, "memset_bytes"));
    if (prepared.memset_bytes < 0) return negative("memset_bytes", prepared.memset_bytes);
    std::int64_t value = 0;
    if (!step.memset_value.empty()) {
      OPFORGE_ASSIGN(value, integer(step.memset_value, "memset_value"));
    }
    if (value < 0 || value > 255) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: memset_value is {}, but must be a byte (0 to 255)",
                              signature_.name, value),
                  kWhere);
    }
    prepared.memset_value = static_cast<std::uint8_t>(value);
    return {};
  }

  Result<PointerTarget> pointer(std::string_view text, std::string_view what) {
    auto parsed = parse_pointer(text);
    if (!parsed) return fail(named(std::move(parsed.error()), what));
    PointerTarget target;
    target.null = parsed->base == PointerValue::Base::kNull;
    if (parsed->base == PointerValue::Base::kTensor) {
      const auto& tensors = signature_.tensors;
      const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorArg& arg) {
        return arg.name == parsed->tensor;
      });
      if (found == tensors.end()) {
        return fail(
            Code::kInvalidDeclaration,
            fmt::format("{}: {} of entry '{}' is \"{}\", but '{}' is not a tensor of this operator",
                        signature_.name, what, entry_, text, parsed->tensor),
            kWhere);
      }
      target.tensor = static_cast<std::int32_t>(found - tensors.begin());
    }
    auto add = parsed->add_bytes.evaluate_int(
        [this](std::string_view symbol) { return evaluator_.find(symbol); });
    if (!add) return fail(named(std::move(add.error()), what));
    target.add_bytes = *add;
    return target;
  }

  Status bind(const Binding& binding, PreparedStep& step) {
    const std::string what = fmt::format("parameter '{}'", binding.name);
    std::uint32_t size_bytes = static_cast<std::uint32_t>(param_size_bytes(binding.type));
    std::uint32_t align = kSlotBytes;
    if (binding.type == ParamType::kBytes) size_bytes = binding.size_bytes;
    if (binding.type == ParamType::kTensorMap) align = kTensorMapAlign;
    const auto end = static_cast<std::uint32_t>(step.arguments.size());
    const std::uint32_t offset = (end + align - 1) / align * align;
    step.arguments.resize(offset + (size_bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes);
    step.param_offsets.push_back(offset);
    step.param_sizes.push_back(size_bytes);
    if (binding.type == ParamType::kTensorMap) return map(binding.tensor_map, what, offset, step);
    if (binding.type != ParamType::kBytes)
      return put(binding.type, binding.value, what, offset, step);
    for (const Binding::Field& field : binding.fields) {
      const std::size_t field_end = field.offset_bytes + param_size_bytes(field.type);
      if (param_size_bytes(field.type) == 0 || field_end > binding.size_bytes) {
        return fail(
            Code::kInvalidDeclaration,
            fmt::format(
                "{}: {} of entry '{}' has a field at byte {} that does not fit in its {} bytes",
                signature_.name, what, entry_, field.offset_bytes, binding.size_bytes));
      }
      OPFORGE_TRY(put(field.type, field.value, fmt::format("{} byte {}", what, field.offset_bytes),
                      offset + field.offset_bytes, step));
    }
    return {};
  }

  // Write a scalar, or note a pointer, at `offset` of the argument block.
  Status put(ParamType type, const std::string& text, std::string_view what, std::uint32_t offset,
             PreparedStep& step) {
    if (type == ParamType::kPtr) {
      OPFORGE_ASSIGN(const PointerTarget target, pointer(text, what));
      if (!target.null) step.pointers.push_back({offset, target.tensor, target.add_bytes});
      return {};
    }
    auto value = evaluator_.value(text);
    if (!value) return fail(named(std::move(value.error()), what));
    if (auto fits = check_fits(type, *value); !fits) {
      fits.error().message += "; this call needs a kernel with a wider parameter";
      return fail(named(std::move(fits.error()), what));
    }
    store(type, *value, step.arguments.data() + offset);
    return {};
  }

  template <class T>
  static void store_as(T value, std::byte* at) {
    std::memcpy(at, &value, sizeof value);
  }

  // The value is known to fit.
  static void store(ParamType type, const Value& value, std::byte* at) {
    const auto* integer = std::get_if<std::int64_t>(&value);
    const std::int64_t whole = integer != nullptr ? *integer : 0;
    const double number = integer != nullptr ? static_cast<double>(whole) : std::get<double>(value);
    switch (type) {
      case ParamType::kI8:
        return store_as(static_cast<std::int8_t>(whole), at);
      case ParamType::kI32:
        return store_as(static_cast<std::int32_t>(whole), at);
      case ParamType::kI64:
        return store_as(whole, at);
      case ParamType::kU32:
        return store_as(static_cast<std::uint32_t>(whole), at);
      case ParamType::kU64:
        return store_as(static_cast<std::uint64_t>(whole), at);
      case ParamType::kF16:
        return store_from_double(at, DType::kF16, number);
      case ParamType::kBF16:
        return store_from_double(at, DType::kBF16, number);
      case ParamType::kF32:
        return store_from_double(at, DType::kF32, number);
      case ParamType::kF64:
        return store_from_double(at, DType::kF64, number);
      case ParamType::kPtr:
      case ParamType::kBytes:
      case ParamType::kTensorMap:
        return;
    }
  }

  template <class T>
  Status numbers(const std::vector<std::string>& texts, std::string_view what,
                 std::vector<T>& into) {
    for (const std::string& text : texts) {
      OPFORGE_ASSIGN(const std::int64_t value, integer(text, what));
      if (value < 0 || static_cast<std::uint64_t>(value) > std::numeric_limits<T>::max()) {
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: {} of entry '{}': {} ({}) is out of range", signature_.name,
                                what, entry_, value, text));
      }
      into.push_back(static_cast<T>(value));
    }
    return {};
  }

  Status map(const TensorMapSpec& spec, std::string_view what, std::uint32_t offset,
             PreparedStep& step) {
    OPFORGE_ASSIGN(const PointerTarget base, pointer(spec.base, what));
    OPFORGE_ASSIGN(const DType element, parse_dtype(spec.element));
    PreparedStep::MapPatch patch{
        offset, base.tensor,     base.add_bytes, element,           {},           {}, {},
        {},     spec.interleave, spec.swizzle,   spec.l2_promotion, spec.oob_fill};
    if (base.null) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: {} of entry '{}' is a tensor map without a base",
                              signature_.name, what, entry_));
    }
    OPFORGE_TRY(numbers(spec.dims, what, patch.dims));
    OPFORGE_TRY(numbers(spec.strides, what, patch.strides_bytes));
    OPFORGE_TRY(numbers(spec.box, what, patch.box));
    OPFORGE_TRY(numbers(spec.element_strides, what, patch.element_strides));
    if (patch.element_strides.empty()) patch.element_strides.assign(patch.dims.size(), 1);
    const std::size_t rank = patch.dims.size();
    if (rank == 0 || patch.strides_bytes.size() + 1 != rank || patch.box.size() != rank ||
        patch.element_strides.size() != rank) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: {} of entry '{}': a tensor map of {} dims wants {} strides, {} "
                              "box extents and {} "
                              "element strides",
                              signature_.name, what, entry_, rank, rank - 1, rank, rank));
    }
    step.maps.push_back(std::move(patch));
    return {};
  }

  const Signature& signature_;
  Evaluator evaluator_;
  const DeviceInfo& device_;
  std::string entry_;
};

}  // namespace

Result<PreparedLaunch> prepare_launch(const Signature& signature, const BoundCall& call,
                                      const LaunchRecord& record, const ValueMap& values,
                                      const DeviceInfo& device) {
  return Preparer(signature, call, values, device).run(record);
}

}  // namespace opforge
