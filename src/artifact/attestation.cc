// Attestations: signing, files, merging into a pack.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "artifact/pack.hpp"

namespace opforge {
namespace {

using Json = nlohmann::ordered_json;
constexpr char kWhere[] = "artifact/attestation";

Json to_json(const Attestation& a) {
  Json json;
  json["op"] = a.op;
  json["variant"] = a.variant;
  json["device_model"] = a.device_model;
  json["driver_version"] = a.driver_version;
  json["tier"] = tier_name(a.tier);
  json["passed"] = a.passed;
  // JSON has no infinity: text where there is no number, e.g. after a NaN in an output.
  if (std::isfinite(a.worst_error_over_bound))
    json["worst_error_over_bound"] = a.worst_error_over_bound;
  else
    json["worst_error_over_bound"] = fmt::format("{}", a.worst_error_over_bound);
  json["cases"] = a.cases;
  json["suite_version"] = a.suite_version;
  json["date"] = a.date;
  json["code_digest"] = a.code_digest.hex();
  json["proof_key"] = a.proof_key.hex();
  json["signer"] = a.signer;
  json["signature"] = a.signature;
  return json;
}

// Fields by name and type; the first that is absent or wrong is told.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}
  std::string text(const char* name) {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_string()) return it->get<std::string>();
    problem(name, "text");
    return {};
  }
  std::int64_t integer(const char* name) {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_number_integer()) return it->get<std::int64_t>();
    problem(name, "an integer");
    return 0;
  }
  bool boolean(const char* name) {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_boolean()) return it->get<bool>();
    problem(name, "true or false");
    return false;
  }
  double real(const char* name) {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_number()) return it->get<double>();
    if (it != json_.end() && it->is_string()) {
      const auto word = it->get<std::string>();
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error == std::errc{} && end == word.data() + word.size()) return value;
    }
    problem(name, "a number");
    return 0;
  }
  Digest digest(const char* name) {
    if (auto parsed = Digest::from_hex(text(name))) return *parsed;
    problem(name, "64 hex digits");
    return {};
  }
  Tier tier(const char* name) {
    if (auto parsed = parse_tier(text(name))) return *parsed;
    problem(name, "a tier");
    return {};
  }
  const std::string& error() const { return error_; }

 private:
  void problem(const char* name, const char* wanted) {
    if (error_.empty()) error_ = fmt::format("'{}' must be {}", name, wanted);
  }
  const Json& json_;
  std::string error_;
};

Result<Attestation> one_from_json(const Json& json, std::size_t index) {
  if (!json.is_object())
    return fail(Code::kCorrupt, fmt::format("attestation {}: an object expected", index), kWhere);
  Fields fields(json);
  Attestation a;
  a.op = fields.text("op");
  a.variant = fields.text("variant");
  a.device_model = fields.text("device_model");
  const auto driver = fields.integer("driver_version");
  a.driver_version = static_cast<int>(driver);
  a.tier = fields.tier("tier");
  a.passed = fields.boolean("passed");
  a.worst_error_over_bound = fields.real("worst_error_over_bound");
  a.cases = fields.integer("cases");
  a.suite_version = fields.text("suite_version");
  a.date = fields.text("date");
  a.code_digest = fields.digest("code_digest");
  a.proof_key = fields.digest("proof_key");
  a.signer = fields.text("signer");
  a.signature = fields.text("signature");
  if (!fields.error().empty() || a.driver_version != driver)
    return fail(
        Code::kCorrupt,
        fmt::format("attestation {}: {}", index,
                    fields.error().empty() ? "'driver_version' is too large" : fields.error()),
        kWhere);
  return a;
}

}  // namespace

Result<std::vector<Attestation>> attestations_from_json(std::string_view json) {
  const Json parsed = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_array())
    return fail(Code::kCorrupt, "not a file of attestations (a JSON array expected)", kWhere);
  std::vector<Attestation> out;
  out.reserve(parsed.size());
  for (const auto& item : parsed) {
    OPFORGE_ASSIGN(Attestation a, one_from_json(item, out.size()));
    out.push_back(std::move(a));
  }
  return out;
}

Result<std::vector<Attestation>> read_attestations(const Path& path) {
  OPFORGE_ASSIGN(const std::string text, read_file(path));
  auto out = attestations_from_json(text);
  if (!out) out.error().message = fmt::format("'{}': {}", path.string(), out.error().message);
  return out;
}

Status write_attestations(const Path& path, std::span<const Attestation> attestations) {
  Json json = Json::array();
  for (const auto& a : attestations) json.push_back(to_json(a));
  // `replace`: a device's name that is not UTF-8 must not throw.
  return write_file_atomic(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void sign_attestation(Attestation& attestation, const SigningKey& key) {
  attestation.signer = key.public_hex();
  attestation.signature = key.sign(attestation_message(attestation));
}

bool attestation_signature_ok(const Attestation& attestation) {
  return verify_signature(attestation.signer, attestation_message(attestation),
                          attestation.signature);
}

Result<std::size_t> merge_attestations(PackContents& contents,
                                       std::span<const Attestation> attestations,
                                       const Trust& trust) {
  for (const auto& a : attestations) {
    if (!trust.trusts(a.signer))
      return fail(
          Code::kUntrusted,
          fmt::format("the attestation of {} on {} is signed by {}, which is not trusted here: if "
                      "you know this "
                      "key, run `opforge trust add {}`",
                      a.variant, a.device_model, a.signer.empty() ? "nobody" : a.signer, a.signer),
          kWhere);
    if (!attestation_signature_ok(a))
      return fail(
          Code::kUntrusted,
          fmt::format("the attestation of {} on {} was altered: the signature by {} does not fit",
                      a.variant, a.device_model, a.signer),
          kWhere);
  }
  // The same claim made again at another time is not new: packs do not change by asking twice.
  const auto claim = [](Attestation a) {
    a.date.clear();
    return attestation_message(a);
  };
  std::size_t added = 0, fitting = 0;
  for (auto& section : contents.sections) {
    std::set<std::pair<Digest, Digest>> held;
    for (const auto& artifact : section.artifacts)
      held.emplace(artifact.code_digest, artifact.proof_key);
    std::set<std::string> known;
    for (const auto& a : section.attestations) known.insert(claim(a));
    for (const auto& a : attestations) {
      if (!held.contains({a.code_digest, a.proof_key})) continue;
      ++fitting;
      if (!known.insert(claim(a)).second) continue;
      section.attestations.push_back(a);
      ++added;
    }
  }
  if (fitting == 0 && !attestations.empty())
    return fail(Code::kNotFound,
                fmt::format("none of the {} attestations is of code and proof key in this pack: it "
                            "was built again, or "
                            "they are of another one",
                            attestations.size()),
                kWhere);
  return added;
}

}  // namespace opforge
