#include "tune/record_json.hpp"

#include <cmath>
#include <limits>

namespace opforge {
namespace {

// nlohmann's own exception type, so that guarded_read has one thing to catch.
[[noreturn]] void bad_field(const std::string& message) {
  throw nlohmann::json::other_error::create(501, message, static_cast<const Json*>(nullptr));
}

template <class T>
T checked(Result<T> result) {
  if (!result) bad_field(result.error().message);
  return std::move(*result);
}

// JSON has no NaN and no infinity: null stands for "not a number".
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_from(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json summary_json(const Summary& summary) {
  return {{"count", summary.count},
          {"median", number_json(summary.median)},
          {"p20", number_json(summary.p20)},
          {"p80", number_json(summary.p80)},
          {"least", number_json(summary.least)},
          {"most", number_json(summary.most)}};
}

Summary summary_from(const Json& json) {
  Summary summary;
  summary.count = json.at("count").get<std::size_t>();
  summary.median = number_from(json.at("median"));
  summary.p20 = number_from(json.at("p20"));
  summary.p80 = number_from(json.at("p80"));
  summary.least = number_from(json.at("least"));
  summary.most = number_from(json.at("most"));
  return summary;
}

Digest digest_from(const Json& json) { return checked(Digest::from_hex(json.get<std::string>())); }

CacheMode cache_from(const Json& json) {
  return json.get<std::string>() == cache_mode_name(CacheMode::kWarm) ? CacheMode::kWarm
                                                                      : CacheMode::kCold;
}

Json samples_json(std::span<const double> samples) {
  Json list = Json::array();
  for (double sample : samples) list.push_back(number_json(sample));
  return list;
}

std::vector<double> samples_from(const Json& json) {
  std::vector<double> samples;
  for (const Json& one : json) samples.push_back(number_from(one));
  return samples;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(Code::kCorrupt, std::string(what) + " is not a JSON object", "tune/json");
  }
  return json;
}

std::string dump_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const ValueMap& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) {
    std::visit([&](const auto& held) { json[name] = held; }, value);
  }
  return json;
}

ValueMap values_from(const Json& json) {
  ValueMap values;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_integer())
      values[name] = value.get<std::int64_t>();
    else if (value.is_number_float())
      values[name] = value.get<double>();
    else
      values[name] = value.get<std::string>();
  }
  return values;
}

Json to_json(const DTypeCombo& dtypes) {
  Json json = Json::object();
  for (const auto& [name, dtype] : dtypes) json[name] = dtype_name(dtype);
  return json;
}

DTypeCombo dtypes_from(const Json& json) {
  DTypeCombo dtypes;
  for (const auto& [name, dtype] : json.items())
    dtypes[name] = checked(parse_dtype(dtype.get<std::string>()));
  return dtypes;
}

Json to_json(const Variant& variant) {
  return {{"op", variant.op},
          {"kernel", variant.kernel},
          {"backend", variant.backend},
          {"tier", tier_name(variant.tier)},
          {"target", variant.target},
          {"dtypes", to_json(variant.dtypes)},
          {"values", to_json(variant.values)},
          {"baked", to_json(variant.baked)}};
}

Variant variant_from(const Json& json) {
  Variant variant;
  variant.op = json.at("op").get<std::string>();
  variant.kernel = json.at("kernel").get<std::string>();
  variant.backend = json.at("backend").get<std::string>();
  variant.tier = checked(parse_tier(json.at("tier").get<std::string>()));
  variant.target = json.at("target").get<std::string>();
  variant.dtypes = dtypes_from(json.at("dtypes"));
  variant.values = values_from(json.at("values"));
  variant.baked = values_from(json.at("baked"));
  return variant;
}

Json to_json(const TuneContext& context) {
  return {{"op", context.op},
          {"dims", to_json(context.dims)},
          {"layout", context.layout},
          {"dtypes", to_json(context.dtypes)},
          {"attributes", to_json(context.attributes)},
          {"contract", tier_name(context.contract)},
          {"target", context.target},
          {"device_model", context.device_model},
          {"driver", context.driver_version}};
}

TuneContext context_from(const Json& json) {
  TuneContext context;
  context.op = json.at("op").get<std::string>();
  context.dims = values_from(json.at("dims"));
  context.layout = json.at("layout").get<std::string>();
  context.dtypes = dtypes_from(json.at("dtypes"));
  context.attributes = values_from(json.at("attributes"));
  context.contract = checked(parse_tier(json.at("contract").get<std::string>()));
  context.target = json.at("target").get<std::string>();
  context.device_model = json.at("device_model").get<std::string>();
  context.driver_version = json.at("driver").get<int>();
  return context;
}

Json to_json(const TrialRecord& trial) {
  const Resources& r = trial.resources;
  return {{"variant", to_json(trial.variant)},
          {"code_key", trial.code_key.hex()},
          {"toolchain", trial.toolchain},
          {"resources", {r.registers, r.shared_bytes, r.local_bytes, r.code_bytes}},
          {"outcome", trial_outcome_name(trial.outcome)},
          {"reason", trial.reason},
          {"baseline_key", trial.baseline_key.hex()},
          {"time_us", summary_json(trial.time_us)},
          {"ratio", summary_json(trial.ratio)},
          {"noise", number_json(trial.noise)},
          {"cache", cache_mode_name(trial.cache)},
          {"salt", trial.salt},
          {"finished_at", trial.finished_at}};
}

TrialRecord trial_from(const Json& json) {
  TrialRecord trial;
  trial.variant = variant_from(json.at("variant"));
  trial.code_key = digest_from(json.at("code_key"));
  trial.toolchain = json.at("toolchain").get<std::string>();
  const auto resources = json.at("resources").get<std::array<std::int64_t, 4>>();
  trial.resources = {resources[0], resources[1], resources[2], resources[3]};
  trial.outcome = checked(parse_trial_outcome(json.at("outcome").get<std::string>()));
  trial.reason = json.at("reason").get<std::string>();
  trial.baseline_key = digest_from(json.at("baseline_key"));
  trial.time_us = summary_from(json.at("time_us"));
  trial.ratio = summary_from(json.at("ratio"));
  trial.noise = number_from(json.at("noise"));
  trial.cache = cache_from(json.at("cache"));
  trial.salt = json.at("salt").get<std::uint64_t>();
  trial.finished_at = json.at("finished_at").get<std::int64_t>();
  return trial;
}

Json to_json(const ChoiceRecord& choice) {
  return {{"variant", to_json(choice.variant)},
          {"code_key", choice.code_key.hex()},
          {"baseline_key", choice.baseline_key.hex()},
          {"toolchain", choice.toolchain},
          {"adopted", choice.adopted},
          {"median_us", number_json(choice.median_us)},
          {"baseline_us", number_json(choice.baseline_us)},
          {"ratio_p80", number_json(choice.ratio_p80)},
          {"noise", number_json(choice.noise)},
          {"cache", cache_mode_name(choice.cache)},
          {"margin", number_json(choice.margin)},
          {"tried", choice.tried},
          {"space", choice.space},
          {"finished_at", choice.finished_at}};
}

ChoiceRecord choice_from(const Json& json, TuneContext context) {
  ChoiceRecord choice;
  choice.context = std::move(context);
  choice.variant = variant_from(json.at("variant"));
  choice.code_key = digest_from(json.at("code_key"));
  choice.baseline_key = digest_from(json.at("baseline_key"));
  choice.toolchain = json.at("toolchain").get<std::string>();
  choice.adopted = json.at("adopted").get<bool>();
  choice.median_us = number_from(json.at("median_us"));
  choice.baseline_us = number_from(json.at("baseline_us"));
  choice.ratio_p80 = number_from(json.at("ratio_p80"));
  choice.noise = number_from(json.at("noise"));
  choice.cache = cache_from(json.at("cache"));
  choice.margin = number_from(json.at("margin"));
  choice.tried = json.at("tried").get<std::int64_t>();
  choice.space = json.at("space").get<std::int64_t>();
  choice.finished_at = json.at("finished_at").get<std::int64_t>();
  return choice;
}

Json to_json(const Comparison& comparison) {
  Json readings = Json::array();
  for (const Reading& reading : comparison.readings) {
    readings.push_back({{"name", reading.name},
                        {"samples_us", samples_json(reading.samples_us)},
                        {"runs", reading.runs_per_sample},
                        {"bytes_per_second", number_json(reading.bytes_per_second)},
                        {"share_of_ceiling", number_json(reading.share_of_ceiling)},
                        {"rejected", reading.rejected}});
  }
  return {{"readings", readings},
          {"again", samples_json(comparison.incumbent_again)},
          {"cache", cache_mode_name(comparison.cache)}};
}

Comparison comparison_from(const Json& json) {
  Comparison comparison;
  comparison.incumbent_again = samples_from(json.at("again"));
  comparison.cache = cache_from(json.at("cache"));
  for (const Json& one : json.at("readings")) {
    Reading reading;
    reading.name = one.at("name").get<std::string>();
    reading.samples_us = samples_from(one.at("samples_us"));
    reading.runs_per_sample = one.at("runs").get<std::size_t>();
    reading.bytes_per_second = number_from(one.at("bytes_per_second"));
    reading.share_of_ceiling = number_from(one.at("share_of_ceiling"));
    reading.rejected = one.at("rejected").get<std::string>();
    reading.time_us = summarise(reading.samples_us);
    comparison.readings.push_back(std::move(reading));
  }
  if (comparison.readings.empty()) bad_field("a comparison without readings");
  const auto& incumbent = comparison.readings.front().samples_us;
  comparison.rounds = incumbent.size();
  comparison.noise = relative_noise(comparison.incumbent_again, incumbent);
  for (const Reading& reading : comparison.readings) {
    const bool first = &reading == &comparison.readings.front();
    comparison.ratios.push_back(
        paired_ratio(first ? comparison.incumbent_again : reading.samples_us, incumbent));
  }
  return comparison;
}

}  // namespace opforge
