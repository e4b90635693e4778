// One record as one line of JSON, and back. Bytes that are not UTF-8 become U+FFFD: JSON cannot
// hold them. Floats that JSON has no number for are {"float": "nan"}, "inf" or "-inf".
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/trace.hpp"

namespace opforge {
namespace {

using Json = nlohmann::ordered_json;

struct TextField {
  const char* key;
  std::string TraceRecord::*member;
};
constexpr TextField kTexts[] = {
    {"op", &TraceRecord::op},           {"kernel", &TraceRecord::kernel},
    {"variant", &TraceRecord::variant}, {"backend", &TraceRecord::backend},
    {"tier", &TraceRecord::tier},       {"contract", &TraceRecord::contract},
    {"grade", &TraceRecord::grade},     {"outcome", &TraceRecord::outcome},
    {"message", &TraceRecord::message}, {"device", &TraceRecord::device}};

Json to_json(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return {{"float", "nan"}};
  return {{"float", number > 0 ? "inf" : "-inf"}};
}

Json to_json(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return to_json(*number);
  return std::get<std::string>(value);
}

tl::unexpected<Error> wrong(std::string_view why) {
  return fail(Code::kCorrupt, fmt::format("trace record: {}", why), "runtime/trace");
}

// An unsigned number above 2^63 - 1 is no integer of ours.
bool is_int(const Json& json) {
  return json.is_number_integer() &&
         (!json.is_number_unsigned() ||
          json.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
}

Result<double> read_double(const Json& json, std::string_view key) {
  if (json.is_number()) return json.get<double>();
  if (json.is_object() && json.size() == 1 && json.contains("float")) {
    const Json& text = json["float"];
    if (text == "nan") return std::nan("");
    if (text == "inf") return HUGE_VAL;
    if (text == "-inf") return -HUGE_VAL;
  }
  return wrong(fmt::format("'{}' is no number", key));
}

Result<Value> read_value(const Json& json, std::string_view key) {
  if (is_int(json)) return Value{json.get<std::int64_t>()};
  if (json.is_string()) return Value{json.get<std::string>()};
  OPFORGE_ASSIGN(const double number, read_double(json, key));
  return Value{number};
}

Result<std::vector<std::int64_t>> read_ints(const Json& tensor, const char* key) {
  std::vector<std::int64_t> values;
  if (!tensor.contains(key) || !tensor[key].is_array())
    return wrong(fmt::format("a tensor has no list '{}'", key));
  for (const Json& item : tensor[key]) {
    if (!is_int(item))
      return wrong(fmt::format("'{}' of a tensor holds what is no 64-bit integer", key));
    values.push_back(item.get<std::int64_t>());
  }
  return values;
}

Result<TraceTensor> read_tensor(const Json& json) {
  TraceTensor tensor;
  if (!json.is_object()) return wrong("a tensor is no object");
  for (const auto& [key, member] :
       {std::pair{"name", &TraceTensor::name}, {"dtype", &TraceTensor::dtype}}) {
    if (!json.contains(key) || !json[key].is_string())
      return wrong(fmt::format("a tensor has no text '{}'", key));
    tensor.*member = json[key].get<std::string>();
  }
  OPFORGE_ASSIGN(tensor.dims, read_ints(json, "dims"));
  OPFORGE_ASSIGN(tensor.strides, read_ints(json, "strides"));
  return tensor;
}

}  // namespace

std::string trace_to_json(const TraceRecord& record) {
  Json json;
  for (const TextField& field : kTexts) json[field.key] = record.*field.member;
  json["attributes"] = Json::object();
  for (const auto& [name, value] : record.attributes) json["attributes"][name] = to_json(value);
  json["tensors"] = Json::array();
  for (const TraceTensor& tensor : record.tensors) {
    json["tensors"].push_back(Json{{"name", tensor.name},
                                   {"dtype", tensor.dtype},
                                   {"dims", tensor.dims},
                                   {"strides", tensor.strides}});
  }
  json["start_ns"] = record.start_ns;
  json["host_us"] = to_json(record.host_us);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<TraceRecord> trace_from_json(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return wrong("not a JSON object on one line");
  TraceRecord record;
  for (const TextField& field : kTexts) {
    if (!json.contains(field.key) || !json[field.key].is_string()) {
      return wrong(fmt::format("the text '{}' is missing", field.key));
    }
    record.*field.member = json[field.key].get<std::string>();
  }
  for (const char* key : {"attributes", "tensors", "start_ns", "host_us"}) {
    if (!json.contains(key)) return wrong(fmt::format("'{}' is missing", key));
  }
  if (!json["attributes"].is_object()) return wrong("'attributes' is no object");
  for (const auto& [name, value] : json["attributes"].items()) {
    OPFORGE_ASSIGN(Value read, read_value(value, name));
    record.attributes.insert_or_assign(name, std::move(read));
  }
  if (!json["tensors"].is_array()) return wrong("'tensors' is no list");
  for (const Json& item : json["tensors"]) {
    OPFORGE_ASSIGN(TraceTensor tensor, read_tensor(item));
    record.tensors.push_back(std::move(tensor));
  }
  if (!is_int(json["start_ns"])) return wrong("'start_ns' is no 64-bit integer");
  record.start_ns = json["start_ns"].get<std::int64_t>();
  OPFORGE_ASSIGN(record.host_us, read_double(json["host_us"], "host_us"));
  return record;
}

}  // namespace opforge
