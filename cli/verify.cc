// opforge verify: prove kernels, from sources or from a pack.
#include <fmt/format.h>

#include <algorithm>

#include "artifact/store.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/session.hpp"
#include "forge/catalogue.hpp"
#include "forge/verify.hpp"
#include "runtime/seal.hpp"

namespace opforge::cli {
namespace {

struct VerifyOptions {
  Common common;
  std::vector<std::string> operators, trust;
  std::string backends, tiers, dtype, device, pack, attest, budget = "quick";
  bool allow_unsigned = false, allow_ptx = false, details = false;
};

nlohmann::json entry_json(const VerifyEntry& entry) {
  const char* outcomes[] = {"proved", "failed", "not run"};
  nlohmann::json json = {{"op", entry.op},       {"kernel", entry.kernel}, {"backend", entry.backend},
                         {"variant", entry.variant}, {"target", entry.target}, {"dtypes", entry.dtypes},
                         {"device", entry.device},   {"tier", tier_name(entry.claimed)},
                         {"outcome", outcomes[static_cast<int>(entry.outcome)]}, {"reason", entry.reason}};
  if (entry.outcome != VerifyOutcome::kNotRun) {
    json["report"] = nlohmann::json::parse(report_to_json(entry.report));
    json["code_digest"] = entry.attestation.code_digest.hex();
  }
  return json;
}

struct Summary {
  std::size_t proved = 0, failed = 0, not_run = 0;
  std::int64_t passed_trials = 0, failed_trials = 0, refused_trials = 0, skipped_trials = 0;
};

void add_rows(const std::vector<VerifyEntry>& entries, bool details, Table& table, Summary& sum) {
  for (const VerifyEntry& entry : entries) {
    const SuiteReport& report = entry.report;
    std::string result = "proved";
    if (entry.outcome == VerifyOutcome::kFailed) result = "FAILED: " + entry.reason;
    if (entry.outcome == VerifyOutcome::kNotRun) result = "not run: " + entry.reason;
    sum.proved += entry.outcome == VerifyOutcome::kProved;
    sum.failed += entry.outcome == VerifyOutcome::kFailed;
    sum.not_run += entry.outcome == VerifyOutcome::kNotRun;
    sum.passed_trials += report.passed;
    sum.failed_trials += report.failed;
    sum.refused_trials += report.refused;
    sum.skipped_trials += report.skipped;
    const bool ran = entry.outcome != VerifyOutcome::kNotRun;
    table.row({entry.variant.empty() ? entry.kernel + "{" + entry.dtypes + "}" : entry.variant, std::string(tier_name(entry.claimed)),
               entry.device.empty() ? "-" : entry.device,
               ran ? fmt::format("{}/{}", report.passed, report.passed + report.failed) : "-",
               ran ? std::to_string(report.refused) : "-", ran ? fmt::format("{:.3g}", report.worst_ulps) : "-",
               ran ? fmt::format("{:.3g}", report.worst_share) : "-", ran ? report.worst_trial : "-", result});
    if (!details) continue;
    for (const TrialResult& trial : report.results) {
      table.row({"    " + trial.suite + " " + trial.trial, "", "", std::string(outcome_name(trial.outcome)), "",
                 fmt::format("{:.3g}", trial.worst_ulps), fmt::format("{:.3g}", trial.worst_share), "", trial.reason});
    }
  }
}

Status sign_and_write(const VerifyOptions& options, std::vector<VerifyEntry>& entries, std::string& text) {
  OPFORGE_ASSIGN(SigningKey key, SigningKey::user_key(user_folders().config));
  std::vector<Attestation> attestations;
  for (VerifyEntry& entry : entries) {
    if (entry.outcome == VerifyOutcome::kNotRun || !entry.attestation.passed) continue;
    sign_attestation(entry.attestation, key);
    attestations.push_back(entry.attestation);
  }
  OPFORGE_TRY(write_attestations(options.attest, attestations));
  text += fmt::format("wrote {} attestations to {}, signed by {}\n", attestations.size(), options.attest, key.public_hex());
  text += "merge them where the pack was built: opforge trust add <that key>, then opforge pack attest PACK " + options.attest + " -o PACK\n";
  return {};
}

Result<int> run_verify(const VerifyOptions& options) {
  develop();
  OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(options.common.plugins));
  OPFORGE_ASSIGN(auto tiers, parse_tiers(options.tiers));
  VerifyRequest request;
  request.backends = split(options.backends, ',');
  request.tiers = tiers;
  request.device = options.device;
  request.suite.budget = options.budget == "full" ? Budget::kFull : Budget::kQuick;
  request.suite.allow_ptx = options.allow_ptx;
  request.suite.cancelled = [] { return interrupted(); };
  Progress progress(options.common.quiet);
  request.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    progress.update(fmt::format("[{}/{}] {}", done + 1, total, what));
  };
  std::vector<VerifyEntry> entries;
  if (!options.pack.empty()) {
    OPFORGE_ASSIGN(auto pack, open_pack(options.pack, options.trust, options.allow_unsigned));
    OPFORGE_ASSIGN(entries, prove_pack(*pack, catalogue, options.operators, request));
  } else {
    OPFORGE_ASSIGN(auto ops, select_operators(catalogue, options.operators));
    OPFORGE_ASSIGN(Store store, Store::open(user_folders().cache));
    for (const Operator* op : ops) {
      request.dtypes.clear();
      if (!options.dtype.empty()) {
        OPFORGE_ASSIGN(request.dtypes, parse_dtypes(op->signature, options.dtype));
      }
      OPFORGE_ASSIGN(auto some, prove_operator(*op, store, request));
      std::move(some.begin(), some.end(), std::back_inserter(entries));
    }
  }
  Table table({"kernel", "tier", "device", "passed", "refused", "worst ulps", "of bound", "worst trial", "result"});
  Summary sum;
  add_rows(entries, options.details, table, sum);
  std::string text = table.text();
  text += fmt::format("\n{} proved, {} failed, {} not run; {} trials passed, {} failed, {} refused by a guard (with its reason), {} skipped\n",
                      sum.proved, sum.failed, sum.not_run, sum.passed_trials, sum.failed_trials, sum.refused_trials, sum.skipped_trials);
  if (!options.attest.empty()) OPFORGE_TRY(sign_and_write(options, entries, text));
  nlohmann::json json = {{"proved", sum.proved}, {"failed", sum.failed}, {"not_run", sum.not_run}};
  for (const VerifyEntry& entry : entries) json["entries"].push_back(entry_json(entry));
  const int exit = sum.failed > 0 ? kFailed : sum.proved == 0 ? kNotPossible : kOk;
  return finish(options.common, text, json, exit);
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify = app.add_subcommand(
      "verify", "Prove kernels against the double reference: declared cases and hostile inputs. Exit 1 if one is wrong");
  verify->add_option("operators", options->operators, "Operators; none: all");
  verify->add_option("--backend", options->backends, "cpu,cuda,reference; default: all");
  verify->add_option("--tier", options->tiers, "Only kernels of these tiers");
  verify->add_option("--dtype", options->dtype, "f32,bf16 or T=bf16,W=f32; default: all");
  verify->add_option("--device", options->device, "e.g. cuda:1; default: the first that runs the code");
  verify->add_option("--pack", options->pack, "Prove the artifacts of this pack instead of compiling");
  verify->add_option("--attest", options->attest, "Write signed attestations to this file");
  verify->add_option("--trust", options->trust, "Trust this key for the pack; may be repeated");
  verify->add_flag("--allow-unsigned", options->allow_unsigned, "Accept an unsigned pack");
  verify->add_flag("--allow-ptx", options->allow_ptx, "Let the driver compile PTX");
  verify->add_option("--budget", options->budget, "quick or full")->check(CLI::IsMember({"quick", "full"}))->capture_default_str();
  verify->add_flag("--details", options->details, "One line for each trial");
  add_common(*verify, options->common);
  set_body(*verify, [options] { return run_verify(*options); });
}

}  // namespace opforge::cli
