// Internal to tune: records and their parts as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "measure/measure.hpp"
#include "tune/trial.hpp"

namespace opforge {

using Json = nlohmann::json;

// A parser of ours: any missing or mistyped field makes the whole record kCorrupt, never an
// exception outside.
template <class T, class Read>
Result<T> guarded_read(std::string_view what, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kCorrupt, std::string(what) + ": " + error.what(), "tune/json");
  }
}
Result<Json> parse_json(std::string_view text, std::string_view what);
std::string dump_json(const Json& json);  // one line; bytes that are not UTF-8 are replaced

Json to_json(const ValueMap& values);
Json to_json(const DTypeCombo& dtypes);
Json to_json(const Variant& variant);
Json to_json(const TuneContext& context);
Json to_json(const TrialRecord& trial);
Json to_json(const ChoiceRecord& choice);  // without its context
Json to_json(const Comparison& comparison);

// These throw nlohmann exceptions or Error through bad_field below: call them inside guarded_read.
ValueMap values_from(const Json& json);
DTypeCombo dtypes_from(const Json& json);
Variant variant_from(const Json& json);
TuneContext context_from(const Json& json);
TrialRecord trial_from(const Json& json);
ChoiceRecord choice_from(const Json& json, TuneContext context);
Comparison comparison_from(
    const Json& json);  // noise and ratios are worked out again from the samples

}  // namespace opforge
