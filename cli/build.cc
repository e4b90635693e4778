// opforge build: compile ahead of time into one signed pack.
#include <fmt/format.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "forge/build.hpp"
#include "forge/catalogue.hpp"
#include "forge/expected.hpp"
#include "runtime/seal.hpp"

namespace opforge::cli {
namespace {

struct BuildOptions {
  Common common;
  std::vector<std::string> operators, shapes;
  std::string backends, targets = "native", tiers, dtypes, output, expected;
  bool from_cases = false, strict = false, unsigned_pack = false, no_attest = false, no_records = false, verbose = false;
  std::size_t jobs = 0, most_variants = 0;
  std::optional<std::size_t> candidates;
};

nlohmann::json report_json(const BuildReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const BuildRow& row : report.rows) {
    rows.push_back({{"op", row.op}, {"kernel", row.kernel}, {"variant", row.variant}, {"target", row.target},
                    {"outcome", build_outcome_name(row.outcome)}, {"reason", row.reason}, {"seconds", row.seconds}});
  }
  return {{"compiled", report.compiled}, {"loaded", report.loaded}, {"skipped", report.skipped}, {"failed", report.failed},
          {"attested", report.attested}, {"proofs_failed", report.proofs_failed}, {"table_entries", report.table_entries},
          {"written", report.written}, {"rows", rows},
          {"pack", {{"signer", report.pack.signer}, {"file_bytes", report.pack.file_bytes}, {"blobs", report.pack.blob_count},
                    {"root_digest", report.pack.root_digest.hex()}}}};
}

std::string report_text(const BuildReport& report, const BuildOptions& options) {
  std::string text;
  Table table({"outcome", "target", "variant", "note"});
  bool rows = false;
  for (const BuildRow& row : report.rows) {
    const bool trouble = row.outcome == BuildOutcome::kSkipped || row.outcome == BuildOutcome::kFailed || row.reason.starts_with("PROOF");
    if (!options.verbose && !trouble) continue;
    table.row({std::string(build_outcome_name(row.outcome)), row.target, row.variant, row.reason});
    rows = true;
  }
  if (rows) text += table.text() + "\n";
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, double>> per;
  for (const BuildRow& row : report.rows) {
    if (row.outcome == BuildOutcome::kSkipped || row.outcome == BuildOutcome::kFailed) continue;
    auto& sum = per[{row.op, row.target}];
    ++sum.first;
    sum.second += row.seconds;
  }
  Table sums({"operator", "target", "variants", "compile time"});
  for (const auto& [name, sum] : per) sums.row({name.first, name.second, std::to_string(sum.first), fmt::format("{:.1f} s", sum.second)});
  text += sums.text();
  text += fmt::format("\ncompiled {}, loaded {}, skipped {}, failed {}; {} attested here, {} measured table entries\n", report.compiled,
                      report.loaded, report.skipped, report.failed, report.attested, report.table_entries);
  if (report.written) {
    text += fmt::format("wrote {}: {} in {} code blobs, root {}, {}\n", options.output, human_bytes(double(report.pack.file_bytes)),
                        report.pack.blob_count, report.pack.root_digest.short_hex(),
                        report.pack.signer.empty() ? "UNSIGNED" : "signed by " + report.pack.signer);
  } else {
    text += fmt::format("{} was not written: mend what failed first\n", options.output);
  }
  return text;
}

Result<BuildRequest> request_of(const BuildOptions& options) {
  BuildRequest request;
  request.backends = split(options.backends, ',');
  request.targets = split(options.targets, ',');
  OPFORGE_ASSIGN(request.tiers, parse_tiers(options.tiers));
  request.from_cases = options.from_cases;
  for (const std::string& shape : options.shapes) {
    OPFORGE_ASSIGN(ValueMap dims, parse_shape(shape));
    request.shapes.push_back(std::move(dims));
  }
  for (const std::string& name : split(options.dtypes, ',')) {
    OPFORGE_ASSIGN(DType dtype, parse_dtype(name));
    request.dtypes.push_back(dtype);
  }
  if (!options.from_cases && options.shapes.empty()) {
    return fail(Code::kInvalidArgument, "build: say which shapes: --from-cases (the declared ones) or --shape M=..,N=..");
  }
  request.candidates = options.candidates.has_value();
  request.most_candidates = options.candidates.value_or(0);
  request.jobs = options.jobs;
  request.most_variants = options.most_variants;
  request.strict = options.strict;
  request.attest = !options.no_attest;
  request.output = options.output;
  request.cancelled = [] { return interrupted(); };
  return request;
}

Result<int> run_build(const BuildOptions& options) {
  develop();
  OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(options.common.plugins));
  OPFORGE_ASSIGN(BuildRequest request, request_of(options));
  OPFORGE_ASSIGN(request.operators, select_operators(catalogue, options.operators));
  const Folders folders = user_folders();
  OPFORGE_ASSIGN(Store store, Store::open(folders.cache));
  request.store = &store;
  std::optional<Records> records;
  if (!options.no_records) {
    OPFORGE_ASSIGN(Records opened, Records::open_in(folders.state));
    records.emplace(std::move(opened));
    request.records = &*records;
  }
  std::optional<SigningKey> key;
  if (!options.unsigned_pack) {
    OPFORGE_ASSIGN(SigningKey own, SigningKey::user_key(folders.config));
    key.emplace(std::move(own));
    request.key = &*key;
  }
  Progress progress(options.common.quiet);
  request.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    progress.update(fmt::format("[{}/{}] {}", done, total, what));
  };
  OPFORGE_ASSIGN(BuildReport report, build_pack(request));
  if (!options.expected.empty()) {
    OPFORGE_TRY(write_expected(request.operators, request.dtypes, options.expected));
  }
  return finish(options.common, report_text(report, options), report_json(report), report.ok(options.strict) ? kOk : kFailed);
}

}  // namespace

void add_build(CLI::App& app) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* build = app.add_subcommand("build", "Compile ahead of time for every target into one signed pack");
  build->add_option("operators", options->operators, "Operators; none: all");
  build->add_flag("--from-cases", options->from_cases, "The shapes that the operators declare for building");
  build->add_option("--shape", options->shapes, "M=4096,N=4096; may be repeated")->allow_extra_args(false);
  build->add_option("--dtype", options->dtypes, "f32,bf16: combinations whose data has this type; default: all");
  build->add_option("--backend", options->backends, "cpu,cuda,reference; default: all");
  build->add_option("--target", options->targets, "x86-64-v3,x86-64-v4,sm_90a,sm_80,compute_80, or native")->capture_default_str();
  build->add_option("--tier", options->tiers, "Only kernels of these tiers");
  build->add_option("-o,--output", options->output, "The pack to write")->required();
  build->add_option("--candidates", options->candidates,
                    "Also the search space of each kernel and shape, for `opforge tune --pack` on a machine without the compilers: at most "
                    "this many, spread over all values; 0: all");
  build->add_option("-j,--jobs", options->jobs, "Compiles at once; default: one for each core");
  build->add_option("--max-variants", options->most_variants, "Fail when an operator needs more on one target; 0: no limit");
  build->add_flag("--strict", options->strict, "A skipped artifact (its toolchain is absent) is a failure");
  build->add_flag("--unsigned", options->unsigned_pack, "Do not sign, and attest nothing");
  build->add_flag("--no-attest", options->no_attest, "Do not prove CPU artifacts here");
  build->add_flag("--no-records", options->no_records, "Ignore tuning records");
  build->add_option("--expected", options->expected, "Also write inputs and expected outputs of the double reference to this folder");
  build->add_flag("-v,--verbose", options->verbose, "A line for each artifact");
  add_common(*build, options->common);
  set_body(*build, [options] { return run_build(*options); });
}

}  // namespace opforge::cli
