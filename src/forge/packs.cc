#include "forge/packs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "artifact/store.hpp"
#include "base/text.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "forge/packs";

PackVariantRow variant_row(const Artifact& a, const OperatorSection& section) {
  PackVariantRow row;
  row.variant = to_string(a.variant);
  row.kernel = a.variant.kernel;
  row.backend = a.variant.backend;
  row.target = a.variant.target;
  row.code_kind = code_kind_name(a.kind);
  row.toolchain = a.toolchain.name + " " + a.toolchain.version;
  row.tier = a.variant.tier;
  row.min_driver = a.min_driver;
  row.code_key = a.code_key;
  row.code_digest = a.code_digest;
  for (const auto& proof : section.attestations) {
    if (!proof.passed || proof.code_digest != a.code_digest || proof.proof_key != a.proof_key)
      continue;
    auto [at, first] = row.proved.emplace(proof.device_model, proof.tier);
    if (!first) at->second = std::max(at->second, proof.tier);
  }
  return row;
}

Result<PackOperatorRow> operator_row(Pack& pack, const PackOperator& op) {
  OPFORGE_ASSIGN(const auto section, pack.section(op.name));
  PackOperatorRow row;
  row.name = op.name;
  row.formula = section->formula;
  row.default_contract = tier_name(section->signature.default_contract);
  row.section_bytes = op.section_bytes;
  row.table_entries = section->table.size();
  for (const auto& entry : section->table) row.measured_on.insert(entry.device_model);
  std::map<Digest, std::uint64_t> sizes;
  for (const auto& a : section->artifacts) {
    auto variant = variant_row(a, *section);
    if (!sizes.contains(a.code_digest)) {
      OPFORGE_ASSIGN(const std::string code, pack.code(a));
      sizes[a.code_digest] = code.size();
      row.code_bytes += code.size();
    }
    variant.code_bytes = sizes[a.code_digest];
    row.backends.insert(variant.backend);
    row.targets.insert(variant.target);
    row.tiers.emplace(tier_name(variant.tier));
    row.dtypes.insert(a.variant.dtypes.empty() ? "any" : to_string(a.variant.dtypes));
    row.variants.push_back(std::move(variant));
  }
  return row;
}

}  // namespace

Result<PackReport> inspect_pack(const Path& path, const Trust& trust) {
  PackReport report;
  report.path = path.string();
  OPFORGE_ASSIGN(const std::string signer, pack_signer(path));
  Trust looking = trust;  // looking is not running
  looking.allow_unsigned = true;
  if (!signer.empty()) looking.keys.insert(signer);
  OPFORGE_ASSIGN(const auto pack, Pack::open(path, looking));
  if (auto opened = Pack::open(path, trust)) {
    report.trusted = true;
  } else {
    report.trust_note = opened.error().message;
  }
  report.info = pack->info();
  std::map<std::pair<std::string, std::string>, PackAttestationRow> proofs;
  for (const auto& op : pack->info().operators) {
    OPFORGE_ASSIGN(auto row, operator_row(*pack, op));
    for (const auto& variant : row.variants) report.unproved += variant.proved.empty() ? 1 : 0;
    report.operators.push_back(std::move(row));
    OPFORGE_ASSIGN(const auto section, pack->section(op.name));
    for (const auto& a : section->attestations) {
      auto& proof = proofs[{a.device_model, a.signer}];
      proof.device_model = a.device_model;
      proof.signer = a.signer;
      proof.signer_trusted = trust.trusts(a.signer);
      ++(a.passed ? proof.passed : proof.failed);
    }
  }
  for (auto& [ignored, proof] : proofs) report.attestations.push_back(std::move(proof));
  return report;
}

std::string pack_report_to_json(const PackReport& report) {
  using Json = nlohmann::ordered_json;
  Json json{{"path", report.path},
            {"schema_version", report.info.schema_version},
            {"opforge_version", report.info.opforge_version},
            {"signer", report.info.signer},
            {"trusted", report.trusted},
            {"trust_note", report.trust_note},
            {"root_digest", report.info.root_digest.hex()},
            {"file_bytes", report.info.file_bytes},
            {"blob_count", report.info.blob_count},
            {"blob_bytes", report.info.blob_bytes},
            {"unproved", report.unproved},
            {"operators", Json::array()},
            {"attestations", Json::array()}};
  for (const auto& op : report.operators) {
    Json variants = Json::array();
    for (const auto& v : op.variants) {
      Json proved = Json::object();
      for (const auto& [model, tier] : v.proved) proved[model] = tier_name(tier);
      variants.push_back({{"variant", v.variant},
                          {"kernel", v.kernel},
                          {"backend", v.backend},
                          {"target", v.target},
                          {"tier", tier_name(v.tier)},
                          {"code_kind", v.code_kind},
                          {"code_bytes", v.code_bytes},
                          {"toolchain", v.toolchain},
                          {"min_driver", v.min_driver},
                          {"code_key", v.code_key.hex()},
                          {"code_digest", v.code_digest.hex()},
                          {"proved", proved}});
    }
    json["operators"].push_back({{"name", op.name},
                                 {"formula", op.formula},
                                 {"default_contract", op.default_contract},
                                 {"section_bytes", op.section_bytes},
                                 {"code_bytes", op.code_bytes},
                                 {"table_entries", op.table_entries},
                                 {"backends", op.backends},
                                 {"targets", op.targets},
                                 {"tiers", op.tiers},
                                 {"dtypes", op.dtypes},
                                 {"measured_on", op.measured_on},
                                 {"variants", variants}});
  }
  for (const auto& a : report.attestations)
    json["attestations"].push_back({{"device_model", a.device_model},
                                    {"signer", a.signer},
                                    {"signer_trusted", a.signer_trusted},
                                    {"passed", a.passed},
                                    {"failed", a.failed}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<PackCheck> verify_pack(const Path& path, const Trust& trust) {
  OPFORGE_ASSIGN(const auto pack, Pack::open(path, trust));
  OPFORGE_TRY(pack->verify_all());
  PackCheck check;
  check.signer = pack->info().signer;
  check.blobs = pack->info().blob_count;
  for (const auto& op : pack->operators()) {
    OPFORGE_ASSIGN(const auto section, pack->section(op));
    ++check.sections;
    check.attestations += section->attestations.size();
  }
  return check;
}

Result<AttestResult> attest_pack(const Path& in, const std::vector<Path>& attestations,
                                 const Path& out, const Trust& trust, const SigningKey& key) {
  OPFORGE_ASSIGN(const auto pack, Pack::open(in, trust));
  OPFORGE_ASSIGN(auto contents, read_pack(*pack));
  std::vector<Attestation> all;
  for (const auto& file : attestations) {
    OPFORGE_ASSIGN(auto some, read_attestations(file));
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  OPFORGE_ASSIGN(const std::size_t added, merge_attestations(contents, all, trust));
  OPFORGE_TRY(write_pack(out, std::move(contents), &key));
  return AttestResult{added, all.size() - added};
}

Status sign_pack(const Path& in, const Path& out, const Trust& trust, const SigningKey& key) {
  Trust accepted = trust;
  accepted.allow_unsigned = true;
  OPFORGE_ASSIGN(const auto pack, Pack::open(in, accepted));
  OPFORGE_TRY(pack->verify_all());
  OPFORGE_ASSIGN(auto contents, read_pack(*pack));
  return write_pack(out, std::move(contents), &key);
}

Result<std::vector<Path>> extract_pack(const Path& in, const Path& folder,
                                       const ExtractFilter& filter, const Trust& trust) {
  static const std::map<CodeKind, std::string> kEndings = {{CodeKind::kElfShared, ".so"},
                                                           {CodeKind::kCubin, ".cubin"},
                                                           {CodeKind::kPtx, ".ptx"},
                                                           {CodeKind::kOpenClBinary, ".bin"},
                                                           {CodeKind::kHsaco, ".hsaco"}};
  OPFORGE_ASSIGN(const auto pack, Pack::open(in, trust));
  std::vector<Path> written;
  for (const auto& op : pack->operators()) {
    if (!filter.op.empty() && filter.op != op) continue;
    OPFORGE_ASSIGN(const auto section, pack->section(op));
    for (const auto& a : section->artifacts) {
      if (!filter.target.empty() && filter.target != a.variant.target) continue;
      std::string stem = a.variant.kernel + "-" + a.code_key.short_hex();
      std::replace(stem.begin(), stem.end(), '/', '_');  // a pack's names choose no folders
      std::string sub = op;
      std::replace(sub.begin(), sub.end(), '/', '_');
      if (sub.starts_with('.')) sub[0] = '_';
      OPFORGE_TRY(make_dirs(folder / sub, 0755));
      OPFORGE_ASSIGN(const std::string code, pack->code(a));
      OPFORGE_ASSIGN(const std::string manifest, manifest_to_json(a));
      const Path file = folder / sub / (stem + kEndings.at(a.kind));
      OPFORGE_TRY(write_file_atomic(file, code));
      OPFORGE_TRY(write_file_atomic(folder / sub / (stem + ".json"), manifest));
      written.push_back(file);
    }
  }
  if (written.empty())
    return fail(
        Code::kNotFound,
        fmt::format("pack '{}' has nothing for operator '{}' and target '{}'; operators: {}",
                    in.string(), filter.op.empty() ? "any" : filter.op,
                    filter.target.empty() ? "any" : filter.target, join(pack->operators(), ", ")),
        kWhere);
  return written;
}

}  // namespace opforge
