#include "tune/trial.hpp"

#include <fmt/core.h>

#include <array>

namespace opforge {
namespace {

constexpr std::array<std::string_view, 13> kNames{
    "measured",      "not_compiled",  "refused", "wrong_result", "nan",
    "nonsense_time", "crash",         "abort",   "hang",         "no_answer",
    "device_error",  "out_of_memory", "other"};

std::string map_text(const ValueMap& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += (text.empty() ? "" : ",") + name + "=" + to_string(value);
  }
  return text;
}

void add_map(Fingerprint& into, std::string_view name, const ValueMap& values) {
  into.add(name, static_cast<std::int64_t>(values.size()));
  for (const auto& [key, value] : values) {
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      into.add(key, *integer);
    else if (const auto* number = std::get_if<double>(&value))
      into.add(key, *number);
    else
      into.add(key, std::string_view(std::get<std::string>(value)));
  }
}

}  // namespace

Digest TuneContext::digest() const {
  Fingerprint fingerprint;
  fingerprint.add("schema", std::int64_t{1}).add("op", op).add("layout", layout);
  add_map(fingerprint, "dims", dims);
  fingerprint.add("dtypes", to_string(dtypes));
  add_map(fingerprint, "attributes", attributes);
  fingerprint.add("contract", tier_name(contract))
      .add("target", target)
      .add("device", device_model);
  fingerprint.add("driver", static_cast<std::int64_t>(driver_version));
  return fingerprint.finish();
}

std::string TuneContext::describe() const {
  std::string text = fmt::format("{} {}", op, map_text(dims));
  if (!dtypes.empty()) text += " " + to_string(dtypes);
  return text + fmt::format(" {} on {} ({})", tier_name(contract), device_model, target);
}

std::string_view trial_outcome_name(TrialOutcome outcome) {
  return kNames[static_cast<std::size_t>(outcome)];
}

Result<TrialOutcome> parse_trial_outcome(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<TrialOutcome>(i);
  }
  return fail(Code::kInvalidArgument, fmt::format("'{}' is no outcome of a trial", name),
              "tune/trial");
}

bool is_final(TrialOutcome outcome) {
  using enum TrialOutcome;
  return outcome != kNotCompiled && outcome != kDeviceError && outcome != kOutOfMemory &&
         outcome != kOther;
}

TableEntry table_entry(const ChoiceRecord& choice) {
  TableEntry entry;
  entry.dtypes = choice.context.dtypes;
  entry.dims = choice.context.dims;
  entry.attributes = choice.context.attributes;
  entry.layout = choice.context.layout;
  entry.device_model = choice.context.device_model;
  entry.target = choice.context.target;
  entry.contract = choice.context.contract;
  entry.code_key = choice.code_key;
  entry.median_us = choice.median_us;
  entry.baseline_us = choice.baseline_us;
  return entry;
}

}  // namespace opforge
