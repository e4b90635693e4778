// Launch records of a declaration: entries, parameters, expressions and, for DETERMINISTIC kernels,
// what bits may depend on.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "operator/validate.hpp"

namespace opforge::declaration {
namespace {

constexpr unsigned kStatic =
    bit(SymbolKind::kReducedDim) | kAnyAttribute | bit(SymbolKind::kDType) | kAnyTunable;

// In a DETERMINISTIC kernel dims that are not reduced appear in the grid, in bounds (integers, pointers) and in guards, where
// they choose which rows are done and not how; a device property appears nowhere. Without reduced dims no elements meet, so
// that geometry cannot change bits.
unsigned allowed_symbols(const Signature& signature, const KernelDecl& kernel, ExprPlace place) {
  if (kernel.tier != Tier::kDeterministic) return kEverything;
  const bool how = place == ExprPlace::kGeometry || place == ExprPlace::kFloat;
  if (how && !signature.reduced_dims.empty()) return kStatic;
  return kEverything & ~bit(SymbolKind::kDevice);
}

bool is_power_of_two(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

class LaunchCheck {
 public:
  LaunchCheck(const Operator& op, const KernelDecl& kernel) : op_(op), kernel_(kernel) {}

  Status run() {
    const LaunchRecord& launch = kernel_.launch;
    if (launch.steps.empty()) return bad("it has no launch step");
    if (!is_power_of_two(launch.workspace_align) || launch.workspace_align > 4096) {
      return bad("workspace alignment {} must be a power of two, at most 4096",
                 launch.workspace_align);
    }
    for (std::size_t i = 0; i < launch.steps.size(); ++i) OPFORGE_TRY(step(launch.steps[i], i));
    for (const Guard& guard : launch.guards) {
      if (guard.expr.empty()) return bad("a guard has no expression");
      if (guard.reason.empty())
        return bad("guard '{}' has no reason to show when it fails", guard.expr);
    }
    return visit_expressions(
        launch, [this](ExprPlace place, const std::string& text, const std::string& where) {
          return expression(place, text, fmt::format("kernel {}, {}", kernel_.id, where));
        });
  }

 private:
  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) const {
    return wrong(op_, "kernel {}: {}", kernel_.id,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  Status step(const LaunchStep& step, std::size_t index) {
    if (step.kind == StepKind::kMemset) {
      if (step.memset_target.empty() || step.memset_bytes.empty()) {
        return bad("step {} sets memory: it needs a target and a number of bytes", index);
      }
      return {};
    }
    if (!is_identifier(step.entry)) {
      return bad("step {}: entry '{}' is no name of a function", index, step.entry);
    }
    std::set<std::string> names;
    for (const Binding& binding : step.bindings) {
      if (!is_identifier(binding.name)) {
        return bad("step {}: parameter name '{}' is no identifier", index, binding.name);
      }
      if (!names.insert(binding.name).second) {
        return bad("step {}: two parameters are called '{}'", index, binding.name);
      }
      const std::string where = fmt::format("step {}: parameter {}", index, binding.name);
      OPFORGE_TRY(parameter(binding, where));
    }
    return {};
  }

  Status parameter(const Binding& binding, const std::string& where) {
    if (binding.type == ParamType::kBytes) return aggregate(binding, where);
    if (binding.type == ParamType::kTensorMap) return tensor_map(binding.tensor_map, where);
    if (binding.value.empty()) return bad("{} has no value", where);
    return {};
  }

  Status aggregate(const Binding& binding, const std::string& where) {
    if (binding.size_bytes == 0 || binding.size_bytes > 4096) {
      return bad("{}: {} bytes; an aggregate has 1 to 4096", where, binding.size_bytes);
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
    for (const Binding::Field& field : binding.fields) {
      const std::uint64_t size = param_size_bytes(field.type);
      if (size == 0 || field.type == ParamType::kTensorMap) {
        return bad("{}: a field may only be a pointer or a scalar", where);
      }
      if (field.value.empty())
        return bad("{}: the field at byte {} has no value", where, field.offset_bytes);
      if (field.offset_bytes % size != 0) {
        return bad("{}: the {} at byte {} is not aligned to {}", where, param_type_name(field.type),
                   field.offset_bytes, size);
      }
      if (field.offset_bytes + size > binding.size_bytes) {
        return bad("{}: the field at byte {} reaches over the end ({} bytes)", where,
                   field.offset_bytes, binding.size_bytes);
      }
      spans.emplace_back(field.offset_bytes, field.offset_bytes + size);
    }
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].first < spans[i - 1].second) {
        return bad("{}: two fields share byte {}", where, spans[i].first);
      }
    }
    return {};
  }

  Status tensor_map(const TensorMapSpec& map, const std::string& where) {
    const std::size_t rank = map.dims.size();
    if (rank < 1 || rank > 5) return bad("{}: a descriptor has 1 to 5 dims, not {}", where, rank);
    if (map.strides.size() != rank - 1) {
      return bad("{}: {} dims need {} strides, not {}", where, rank, rank - 1, map.strides.size());
    }
    if (map.box.size() != rank)
      return bad("{}: {} dims need {} box sizes, not {}", where, rank, rank, map.box.size());
    if (!map.element_strides.empty() && map.element_strides.size() != rank) {
      return bad("{}: {} dims need {} element strides or none, not {}", where, rank, rank,
                 map.element_strides.size());
    }
    if (map.base.empty()) return bad("{}: the descriptor has no base", where);
    if (const auto element = parse_dtype(map.element); !element) {
      return bad("{}: {}", where, element.error().message);
    }
    for (const auto* list : {&map.dims, &map.strides, &map.box, &map.element_strides}) {
      if (std::find(list->begin(), list->end(), "") != list->end())
        return bad("{}: an expression is empty", where);
    }
    for (const int value : {map.interleave, map.swizzle, map.l2_promotion, map.oob_fill}) {
      if (value < 0 || value > 15)
        return bad("{}: {} is no enumerator of the driver", where, value);
    }
    return {};
  }

  Status expression(ExprPlace place, const std::string& text, const std::string& where) {
    const unsigned allowed = allowed_symbols(op_.signature, kernel_, place);
    if (place == ExprPlace::kPointer) return pointer(text, where, allowed);
    OPFORGE_ASSIGN(const Expression parsed, check_expression(op_, &kernel_, text, where, allowed));
    if (!parsed.symbols().empty()) return {};
    // A constant is evaluated now: it cannot get better at a call.
    if (const auto value = parsed.evaluate({}); !value)
      return wrong(op_, "{}: {}", where, value.error().message);
    return {};
  }

  Status pointer(const std::string& text, const std::string& where, unsigned allowed) {
    const auto value = parse_pointer(text);
    if (!value) return wrong(op_, "{}: {}", where, value.error().message);
    if (value->base == PointerValue::Base::kWorkspace && kernel_.launch.workspace_bytes.empty()) {
      return wrong(op_, "{}: it uses the workspace, but the kernel asks for none", where);
    }
    if (value->base == PointerValue::Base::kTensor && !find_tensor(op_.signature, value->tensor)) {
      std::vector<std::string> names;
      for (const TensorArg& tensor : op_.signature.tensors) names.push_back(tensor.name);
      return wrong(op_, "{}: '{}' is no tensor of the operator; the tensors are {}", where,
                   value->tensor, fmt::join(names, ", "));
    }
    const std::string& added = value->add_bytes.text();
    if (added.empty()) return {};
    const auto checked = check_expression(op_, &kernel_, added, where, allowed);
    if (!checked) return fail(checked.error());
    return {};
  }

  const Operator& op_;
  const KernelDecl& kernel_;
};

// A parameter whose constant value does not fit its type.
Status check_constants(const Operator& op, const KernelDecl& kernel, const Binding& binding) {
  const auto one = [&](ParamType type, const std::string& text) -> Status {
    if (!is_integer_param(type) && !is_float_param(type)) return {};
    const auto parsed = Expression::parse(text);
    if (!parsed || !parsed->symbols().empty()) return {};
    OPFORGE_ASSIGN(const Value value, parsed->evaluate({}));
    if (const auto fits = check_fits(type, value); !fits) {
      return wrong(op, "kernel {}: parameter {}: {}", kernel.id, binding.name,
                   fits.error().message);
    }
    return {};
  };
  OPFORGE_TRY(one(binding.type, binding.value));
  for (const Binding::Field& field : binding.fields) OPFORGE_TRY(one(field.type, field.value));
  return {};
}

}  // namespace

Status check_launch(const Operator& op, const KernelDecl& kernel) {
  OPFORGE_TRY(LaunchCheck(op, kernel).run());
  for (const LaunchStep& step : kernel.launch.steps) {
    for (const Binding& binding : step.bindings) OPFORGE_TRY(check_constants(op, kernel, binding));
  }
  return {};
}

}  // namespace opforge::declaration
