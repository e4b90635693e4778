#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "operator/signature.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "operator/bind_call";

std::string_view type_name(AttrType type) {
  switch (type) {
    case AttrType::kInt:
      return "an integer";
    case AttrType::kFloat:
      return "a number";
    case AttrType::kBool:
      return "0 or 1";
    case AttrType::kText:
      return "a text";
  }
  return "";
}

std::string quoted(const Value& value) {
  return value.index() == 2 ? fmt::format("the text '{}'", to_string(value)) : to_string(value);
}

std::string range_text(const AttrArg& attribute) {
  if (attribute.min && attribute.max) {
    return fmt::format("from {} to {}", *attribute.min, *attribute.max);
  }
  return attribute.min ? fmt::format("at least {}", *attribute.min)
                       : fmt::format("at most {}", *attribute.max);
}

Result<Value> checked(const Signature& signature, const AttrArg& attribute, const Value& value) {
  const auto wrong = [&](std::string_view expected) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: attribute {} must be {}, not {}", signature.name, attribute.name,
                            expected, quoted(value)),
                kWhere);
  };
  const auto* integer = std::get_if<std::int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  const auto* text = std::get_if<std::string>(&value);
  switch (attribute.type) {
    case AttrType::kInt:
      if (!integer) return wrong(type_name(attribute.type));
      break;
    case AttrType::kBool:
      if (!integer || (*integer != 0 && *integer != 1)) return wrong(type_name(attribute.type));
      return value;
    case AttrType::kFloat:
      if (text) return wrong(type_name(attribute.type));
      break;
    case AttrType::kText:
      if (!text) return wrong(fmt::format("one of {}", join(attribute.choices, ", ")));
      if (std::find(attribute.choices.begin(), attribute.choices.end(), *text) ==
          attribute.choices.end()) {
        return wrong(fmt::format("one of {}", join(attribute.choices, ", ")));
      }
      return value;
  }
  const double amount = integer ? static_cast<double>(*integer) : *number;
  // Written so that NaN is outside every range.
  if ((attribute.min && !(amount >= *attribute.min)) ||
      (attribute.max && !(amount <= *attribute.max))) {
    return wrong(range_text(attribute));
  }
  if (attribute.type == AttrType::kFloat) return Value{amount};
  return value;
}

}  // namespace

Result<ValueMap> bind_attributes(const Signature& signature, const ValueMap& attributes) {
  std::vector<std::string> names;
  for (const AttrArg& attribute : signature.attributes) names.push_back(attribute.name);
  for (const auto& [name, value] : attributes) {
    if (find_attribute(signature, name)) continue;
    const std::string offer =
        names.empty() ? "it has none"
                      : fmt::format("did you mean {}?", join(nearest_names(name, names), ", "));
    return fail(Code::kInvalidArgument,
                fmt::format("{} has no attribute '{}'; {}", signature.name, name, offer), kWhere);
  }
  ValueMap bound;
  for (const AttrArg& attribute : signature.attributes) {
    const auto given = attributes.find(attribute.name);
    if (given == attributes.end() && !attribute.default_value) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: attribute {} ({}) has no default: give it", signature.name,
                              attribute.name, type_name(attribute.type)),
                  kWhere);
    }
    const Value& value = given == attributes.end() ? *attribute.default_value : given->second;
    OPFORGE_ASSIGN(Value good, checked(signature, attribute, value));
    bound.emplace(attribute.name, std::move(good));
  }
  return bound;
}

}  // namespace opforge
