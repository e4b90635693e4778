#include "operator/launch.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "operator/launch";

struct ParamRow {
  std::string_view name;
  std::size_t size_bytes;
};
constexpr std::array<ParamRow, 12> kParams{{{"ptr", 8},
                                            {"i8", 1},
                                            {"i32", 4},
                                            {"i64", 8},
                                            {"u32", 4},
                                            {"u64", 8},
                                            {"f16", 2},
                                            {"bf16", 2},
                                            {"f32", 4},
                                            {"f64", 8},
                                            {"bytes", 0},
                                            {"tensor_map", 128}}};

struct IntegerRange {
  std::int64_t least, most;
};

IntegerRange integer_range(ParamType type) {
  switch (type) {
    case ParamType::kI8:
      return {-128, 127};
    case ParamType::kI32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case ParamType::kU32:
      return {0, std::numeric_limits<std::uint32_t>::max()};
    // Values are signed 64-bit, so the upper half of u64 cannot be written.
    case ParamType::kU64:
      return {0, std::numeric_limits<std::int64_t>::max()};
    default:
      return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
}

// The largest magnitude that does not round to infinity.
double float_limit(ParamType type) {
  switch (type) {
    case ParamType::kF16:
      return 65519.99;  // half way from 65504 to 2^16, exclusive
    case ParamType::kBF16:
      return 0x1.fefffffffp127;  // half way from the largest to 2^128, exclusive
    case ParamType::kF32:
      return 0x1.fffffefffffffp127;
    default:
      return std::numeric_limits<double>::max();
  }
}

class Walk {
 public:
  explicit Walk(const ExprVisitor& visit) : visit_(visit) {}

  Status step(const LaunchStep& step, std::size_t index) {
    at_ = fmt::format("step {}", index);
    if (step.kind == StepKind::kMemset) {
      OPFORGE_TRY(one(ExprPlace::kPointer, step.memset_target, "memset target"));
      OPFORGE_TRY(one(ExprPlace::kMemset, step.memset_bytes, "memset bytes"));
      return one(ExprPlace::kMemset, step.memset_value, "memset value");
    }
    for (std::size_t i = 0; i < 3; ++i) {
      OPFORGE_TRY(one(ExprPlace::kGrid, step.grid[i], fmt::format("grid[{}]", i)));
      OPFORGE_TRY(one(ExprPlace::kGeometry, step.block[i], fmt::format("block[{}]", i)));
      OPFORGE_TRY(one(ExprPlace::kGeometry, step.cluster[i], fmt::format("cluster[{}]", i)));
    }
    OPFORGE_TRY(one(ExprPlace::kGeometry, step.shared_bytes, "shared bytes"));
    for (const Binding& binding : step.bindings) OPFORGE_TRY(this->binding(binding));
    return {};
  }

 private:
  Status one(ExprPlace place, const std::string& text, const std::string& what) {
    return text.empty() ? Status{} : visit_(place, text, fmt::format("{}: {}", at_, what));
  }

  static ExprPlace place_of(ParamType type) {
    if (type == ParamType::kPtr) return ExprPlace::kPointer;
    return is_float_param(type) ? ExprPlace::kFloat : ExprPlace::kInteger;
  }

  Status binding(const Binding& binding) {
    const std::string what = fmt::format("parameter {}", binding.name);
    if (binding.type == ParamType::kBytes) {
      for (const Binding::Field& field : binding.fields) {
        OPFORGE_TRY(one(place_of(field.type), field.value,
                        fmt::format("{}, field at byte {}", what, field.offset_bytes)));
      }
      return {};
    }
    if (binding.type != ParamType::kTensorMap)
      return one(place_of(binding.type), binding.value, what);
    const TensorMapSpec& map = binding.tensor_map;
    OPFORGE_TRY(one(ExprPlace::kPointer, map.base, what + ", base"));
    OPFORGE_TRY(list(map.dims, what + ", dims"));
    OPFORGE_TRY(list(map.strides, what + ", strides"));
    OPFORGE_TRY(list(map.box, what + ", box"));
    return list(map.element_strides, what + ", element strides");
  }

  Status list(const std::vector<std::string>& texts, const std::string& what) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      OPFORGE_TRY(one(ExprPlace::kTensorMap, texts[i], fmt::format("{}[{}]", what, i)));
    }
    return {};
  }

  const ExprVisitor& visit_;
  std::string at_;
};

}  // namespace

std::size_t param_size_bytes(ParamType type) {
  return kParams[static_cast<std::size_t>(type)].size_bytes;
}

std::string_view param_type_name(ParamType type) {
  return kParams[static_cast<std::size_t>(type)].name;
}

bool is_integer_param(ParamType type) { return type >= ParamType::kI8 && type <= ParamType::kU64; }
bool is_float_param(ParamType type) { return type >= ParamType::kF16 && type <= ParamType::kF64; }

Result<PointerValue> parse_pointer(std::string_view text) {
  const std::size_t plus = text.find('+');
  const std::string_view base = trim(text.substr(0, plus));
  if (!is_identifier(base)) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("pointer value '{}': expected null, workspace or a tensor's name, "
                            "optionally followed by '+ <bytes>'",
                            text),
                kWhere);
  }
  PointerValue value;
  if (base == "workspace") {
    value.base = PointerValue::Base::kWorkspace;
  } else if (base != "null") {
    value.base = PointerValue::Base::kTensor;
    value.tensor = std::string(base);
  }
  if (plus != std::string_view::npos) {
    if (value.base == PointerValue::Base::kNull) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("pointer value '{}': nothing can be added to null", text), kWhere);
    }
    OPFORGE_ASSIGN(value.add_bytes, Expression::parse(text.substr(plus + 1)));
  }
  return value;
}

Status check_fits(ParamType type, const Value& value) {
  const auto wrong = [&](std::string_view expected) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} does not fit a parameter of type {}: {}", to_string(value),
                            param_type_name(type), expected),
                kWhere);
  };
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  if (!integer && !number) return wrong("a number is needed");
  if (is_integer_param(type)) {
    if (!integer) return wrong("an integer is needed");
    const auto [least, most] = integer_range(type);
    if (*integer < least || *integer > most)
      return wrong(fmt::format("it holds {} to {}", least, most));
    return {};
  }
  if (is_float_param(type)) {
    const double amount = integer ? static_cast<double>(*integer) : *number;
    if (std::isfinite(amount) && std::fabs(amount) > float_limit(type))
      return wrong("it would become infinite");
    return {};
  }
  return wrong("it takes no scalar");
}

Status visit_expressions(const LaunchRecord& record, const ExprVisitor& visit) {
  Walk walk(visit);
  for (std::size_t i = 0; i < record.steps.size(); ++i) OPFORGE_TRY(walk.step(record.steps[i], i));
  if (!record.workspace_bytes.empty()) {
    OPFORGE_TRY(visit(ExprPlace::kWorkspace, record.workspace_bytes, "workspace bytes"));
  }
  for (std::size_t i = 0; i < record.guards.size(); ++i) {
    OPFORGE_TRY(visit(ExprPlace::kGuard, record.guards[i].expr, fmt::format("guard {}", i)));
  }
  return {};
}

}  // namespace opforge
