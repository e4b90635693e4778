// opforge pack inspect | verify | attest | sign | merge | diff | extract; opforge trust add | list
#include <fmt/format.h>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "forge/packs.hpp"

namespace opforge::cli {
namespace {

struct PackOptions {
  Common common;
  std::string pack, other, output, key, op, target;
  std::vector<std::string> files, trust;
  bool allow_unsigned = false, variants = false, take_first = false;
};

Result<Trust> trust_of(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, process_trust(user_folders().config));
  trust.allow_unsigned = options.allow_unsigned;
  for (const std::string& key : options.trust) {
    OPFORGE_ASSIGN(auto keys, parse_trusted(key));
    trust.keys.merge(keys);
  }
  return trust;
}

Result<SigningKey> key_of(const PackOptions& options) {
  return options.key.empty() ? SigningKey::user_key(user_folders().config) : SigningKey::load(options.key);
}

std::string list(const std::set<std::string>& names) {
  std::vector<std::string> parts(names.begin(), names.end());
  return join(parts, " ");
}

std::string proved_on(const PackVariantRow& row) {
  std::vector<std::string> parts;
  for (const auto& [model, tier] : row.proved) parts.push_back(fmt::format("{} on {}", tier_name(tier), model));
  return parts.empty() ? "-" : join(parts, "; ");
}

Result<int> inspect(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(PackReport report, inspect_pack(options.pack, trust));
  nlohmann::json json = nlohmann::json::parse(pack_report_to_json(report));
  json["signer"] = report.info.signer;
  std::string text = fmt::format("{}: {}, schema {}, built by opforge {}\nsigned by {}{}\n", report.path,
                                 human_bytes(double(report.info.file_bytes)), report.info.schema_version, report.info.opforge_version,
                                 report.info.signer.empty() ? "nobody (unsigned)" : report.info.signer,
                                 report.trusted ? " (trusted here)" : "\nNOT trusted here: " + report.trust_note);
  text += fmt::format("root {}, {} code blobs\n\n", report.info.root_digest.short_hex(), report.info.blob_count);
  Table table({"operator", "default", "variants", "code", "backends", "targets", "tiers", "dtypes", "measured"});
  for (const PackOperatorRow& row : report.operators) {
    table.row({row.name, row.default_contract, std::to_string(row.variants.size()), human_bytes(double(row.code_bytes)), list(row.backends),
               list(row.targets), list(row.tiers), list(row.dtypes), std::to_string(row.table_entries)});
  }
  text += table.text();
  if (options.variants) {
    Table variants({"\nvariant", "tier", "kind", "toolchain", "bytes", "code key", "proved"});
    for (const PackOperatorRow& op : report.operators) {
      for (const PackVariantRow& row : op.variants) {
        variants.row({row.variant, std::string(tier_name(row.tier)), row.code_kind, row.toolchain, std::to_string(row.code_bytes),
                      row.code_key.short_hex(), proved_on(row)});
      }
    }
    text += variants.text();
  }
  text += "\n";
  for (const PackAttestationRow& row : report.attestations) {
    text += fmt::format("attested on {}: {} passed, {} failed, by {}{}\n", row.device_model, row.passed, row.failed, row.signer,
                        row.signer_trusted ? "" : " (NOT trusted here)");
  }
  text += fmt::format("{} variants without a passing attestation serve FAST only\n", report.unproved);
  return finish(options.common, text, json);
}

Result<int> verify(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(PackCheck check, verify_pack(options.pack, trust));
  return finish(options.common, fmt::format("{}: intact: {} sections, {} code blobs, {} attestations; signed by {}\n", options.pack, check.sections,
                                            check.blobs, check.attestations, check.signer.empty() ? "nobody" : check.signer),
                {{"sections", check.sections}, {"blobs", check.blobs}, {"attestations", check.attestations}, {"signer", check.signer}});
}

Result<int> attest(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(SigningKey key, key_of(options));
  std::vector<Path> files(options.files.begin(), options.files.end());
  const std::string out = options.output.empty() ? options.pack : options.output;
  OPFORGE_ASSIGN(AttestResult result, attest_pack(options.pack, files, out, trust, key));
  return finish(options.common, fmt::format("{}: {} attestations added, {} known already or of other code\n", out, result.added, result.known),
                {{"added", result.added}, {"known", result.known}});
}

Result<int> sign(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(SigningKey key, key_of(options));
  const std::string out = options.output.empty() ? options.pack : options.output;
  OPFORGE_TRY(sign_pack(options.pack, out, trust, key));
  return finish(options.common, fmt::format("{}: signed by {}\n", out, key.public_hex()), {{"signer", key.public_hex()}});
}

Result<int> merge(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(SigningKey key, key_of(options));
  std::vector<Path> files(options.files.begin(), options.files.end());
  OPFORGE_ASSIGN(MergeResult result, merge_packs(files, options.output, trust, key,
                                                 options.take_first ? MergeConflict::kTakeFirst : MergeConflict::kFail));
  return finish(options.common, fmt::format("{}: {} operators, {} variants; {} were in several packs, {} were left out\n", options.output,
                                            result.operators, result.variants, result.same, result.left_out),
                {{"operators", result.operators}, {"variants", result.variants}, {"same", result.same}, {"left_out", result.left_out}});
}

Result<int> diff(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(PackDiff result, diff_packs(options.pack, options.other, trust));
  std::string text = result.same() ? "the same\n" : "";
  for (const std::string& line : result.lines) text += line + "\n";
  return finish(options.common, text, {{"same", result.same()}, {"lines", result.lines}}, result.same() ? kOk : kFailed);
}

Result<int> extract(const PackOptions& options) {
  OPFORGE_ASSIGN(Trust trust, trust_of(options));
  OPFORGE_ASSIGN(auto files, extract_pack(options.pack, options.output, {options.op, options.target}, trust));
  std::string text;
  nlohmann::json json = nlohmann::json::array();
  for (const Path& file : files) {
    text += file.string() + "\n";
    json.push_back(file.string());
  }
  return finish(options.common, text + fmt::format("{} files of code, each with its manifest\n", files.size()), json);
}

using Body = Result<int> (*)(const PackOptions&);

std::pair<CLI::App*, std::shared_ptr<PackOptions>> command(CLI::App& parent, const char* name, const char* what, Body body) {
  auto options = std::make_shared<PackOptions>();
  CLI::App* added = parent.add_subcommand(name, what);
  added->add_option("--trust", options->trust, "Trust this key (hex or a file); may be repeated")->allow_extra_args(false);
  added->add_flag("--allow-unsigned", options->allow_unsigned, "Accept an unsigned pack");
  add_common(*added, options->common);
  set_body(*added, [options, body] { return body(*options); });
  return {added, options};
}

void add_key_and_output(CLI::App& added, PackOptions& options) {
  added.add_option("--key", options.key, "The signing key's file; default: your own");
  added.add_option("-o,--output", options.output, "The pack to write; default: the same file");
}

void add_trust(CLI::App& app) {
  CLI::App* trust = app.add_subcommand("trust", "Keys whose packs and attestations this user accepts: add, list");
  trust->require_subcommand(1);
  auto options = std::make_shared<PackOptions>();
  CLI::App* add = trust->add_subcommand("add", "Trust a key: 64 hex digits, or a file of them");
  add->add_option("key", options->key, "The public key")->required();
  add_common(*add, options->common);
  set_body(*add, [options]() -> Result<int> {
    OPFORGE_TRY(trust_add(user_folders().config, options->key));
    return finish(options->common, "trusted\n", {{"trusted", options->key}});
  });
  auto listed = std::make_shared<PackOptions>();
  CLI::App* list_command = trust->add_subcommand("list", "Every key that this process trusts");
  add_common(*list_command, listed->common);
  set_body(*list_command, [listed]() -> Result<int> {
    OPFORGE_ASSIGN(Trust all, process_trust(user_folders().config));
    std::string text;
    for (const std::string& key : all.keys) text += key + "\n";
    return finish(listed->common, text, {{"keys", all.keys}});
  });
}

}  // namespace

void add_pack(CLI::App& app) {
  CLI::App* pack = app.add_subcommand("pack", "Packs: inspect, verify, attest, sign, merge, diff, extract");
  pack->require_subcommand(1);
  auto [inspect_command, inspected] = command(*pack, "inspect", "What is in a pack, who signed it, what is proved where", &inspect);
  inspect_command->add_option("pack", inspected->pack, "The pack")->required();
  inspect_command->add_flag("--variants", inspected->variants, "A line for each variant");
  auto [verify_command, verified] = command(*pack, "verify", "Check every byte and every signature", &verify);
  verify_command->add_option("pack", verified->pack, "The pack")->required();
  auto [attest_command, attested] = command(*pack, "attest", "Merge attestations of trusted keys into a pack, without a rebuild", &attest);
  attest_command->add_option("pack", attested->pack, "The pack")->required();
  attest_command->add_option("attestations", attested->files, "Files written by `opforge verify --attest`")->required();
  add_key_and_output(*attest_command, *attested);
  auto [sign_command, signed_options] = command(*pack, "sign", "Sign with one's own key, i.e. answer for it", &sign);
  sign_command->add_option("pack", signed_options->pack, "The pack")->required();
  add_key_and_output(*sign_command, *signed_options);
  auto [merge_command, merged] = command(*pack, "merge", "One pack of several", &merge);
  merge_command->add_option("packs", merged->files, "The packs")->required();
  merge_command->add_flag("--take-first", merged->take_first, "Where two hold the same variant with different code, take the first");
  add_key_and_output(*merge_command, *merged);
  auto [diff_command, compared] = command(*pack, "diff", "What differs between two packs (exit 1 if anything does)", &diff);
  diff_command->add_option("a", compared->pack, "The first pack")->required();
  diff_command->add_option("b", compared->other, "The second pack")->required();
  auto [extract_command, extracted] = command(*pack, "extract", "Write the code and its manifests to a folder", &extract);
  extract_command->add_option("pack", extracted->pack, "The pack")->required();
  extract_command->add_option("-o,--output", extracted->output, "The folder")->required();
  extract_command->add_option("--op", extracted->op, "Only this operator");
  extract_command->add_option("--target", extracted->target, "Only this target");
  add_trust(app);
}

}  // namespace opforge::cli
