// opforge tune: find the fastest right variant of operators at a shape, in workers that may crash.
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
#include "forge/tune.hpp"
#include "runtime/seal.hpp"

namespace opforge::cli {
namespace {

struct TuneOptions {
  Common common;
  std::vector<std::string> operators, shapes;
  std::string backends = "cpu", device, dtype, contract, search = "auto", attributes, cache = "cold";
  std::int64_t budget = 40;
  double seconds = 0, device_seconds = 0, limit_s = 30;
  std::uint64_t seed = 0;
  bool again = false, no_prove = false, trials = false, allow_unsigned = false;
  std::string pack;
  std::vector<std::string> trust;
};

std::string progress_line(const std::string& what, const TuneProgress& progress) {
  return fmt::format("{}: {} {}/{} tried, {} failed, {:.1f}/s, best {}", what, tune_phase_name(progress.phase), progress.tried,
                     progress.total, progress.failed, progress.per_second,
                     progress.best_speedup > 0 ? fmt::format("{:.3f}x {}", progress.best_speedup, progress.best) : "none yet");
}

nlohmann::json trial_json(const TrialRecord& trial) {
  return {{"variant", to_string(trial.variant)}, {"values", to_json(trial.variant.values)}, {"code_key", trial.code_key.hex()},
          {"outcome", trial_outcome_name(trial.outcome)}, {"reason", trial.reason}, {"median_us", trial.time_us.median},
          {"ratio_median", trial.ratio.median}, {"ratio_p80", trial.ratio.p80}, {"noise", trial.noise}, {"from_records", trial.from_records}};
}

nlohmann::json report_json(const TuneReport& report) {
  nlohmann::json json = {{"context", report.context.describe()}, {"chosen", report.chosen}, {"why", report.why},
                         {"adopted", report.choice.adopted}, {"tried", report.tried}, {"failed", report.failed}, {"known", report.known},
                         {"compiled", report.compiled}, {"wall_s", report.wall_s}, {"device_s", report.device_s},
                         {"stopped_by", report.stopped_by}, {"from_records", report.from_records}, {"warnings", report.warnings}};
  if (report.chosen) {
    json["choice"] = {{"variant", to_string(report.choice.variant)}, {"median_us", report.choice.median_us},
                      {"baseline_us", report.choice.baseline_us}, {"ratio_p80", report.choice.ratio_p80},
                      {"noise", report.choice.noise}, {"margin", report.choice.margin}, {"space", report.choice.space}};
  }
  for (const TrialRecord& trial : report.trials) json["trials"].push_back(trial_json(trial));
  return json;
}

struct Shape {
  const Operator* op;
  BenchShape bench;
};

Result<std::vector<Shape>> shapes_of(const TuneOptions& options, const std::vector<const Operator*>& ops) {
  std::vector<Shape> shapes;
  for (const Operator* op : ops) {
    OPFORGE_ASSIGN(auto dtypes, parse_dtypes(op->signature, options.dtype));
    OPFORGE_ASSIGN(ValueMap attributes, parse_attributes(op->signature, options.attributes));
    for (const std::string& text : options.shapes) {
      OPFORGE_ASSIGN(ValueMap dims, parse_shape(text));
      for (const DTypeCombo& combo : dtypes) shapes.push_back({op, {text, dims, attributes, combo}});
    }
  }
  return shapes;
}

Result<TuneRequest> prepare(const TuneOptions& options, const Shape& shape, const DeviceInfo& device,
                            const std::shared_ptr<Pack>& pack, Store& store, Records& records) {
  TuneJob job;
  job.op = shape.op;
  job.pack = pack;
  job.shape = shape.bench;
  job.backends = split(options.backends, ',');
  job.device = device;
  job.contract = shape.op->signature.default_contract;
  if (!options.contract.empty()) {
    OPFORGE_ASSIGN(job.contract, parse_tier(options.contract));
  }
  OPFORGE_ASSIGN(TuneRequest request, tune_request(job, store));
  request.budget.candidates = options.budget;
  if (options.seconds > 0) request.budget.wall_s = options.seconds;
  if (options.device_seconds > 0) request.budget.device_s = options.device_seconds;
  request.search = options.search;
  request.seed = options.seed;
  request.cache = options.cache == "warm" ? CacheMode::kWarm : CacheMode::kCold;
  request.again = options.again;
  request.prove = !options.no_prove;
  request.records = &records;
  request.worker.time_limit_s = options.limit_s;
  if (!options.common.plugins.empty()) request.worker.environment["OPFORGE_PLUGINS"] = join(options.common.plugins, ":");
  return request;
}

Result<int> run_tune(const TuneOptions& options) {
  std::shared_ptr<Pack> pack;
  // From a pack of candidates nothing is compiled: the process stays out of development mode.
  if (options.pack.empty()) {
    develop();
  } else {
    OPFORGE_ASSIGN(pack, open_pack(options.pack, options.trust, options.allow_unsigned));
  }
  OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(options.common.plugins));
  OPFORGE_ASSIGN(auto ops, select_operators(catalogue, options.operators));
  OPFORGE_ASSIGN(auto shapes, shapes_of(options, ops));
  const auto backends = split(options.backends, ',');
  OPFORGE_ASSIGN(DeviceInfo device, !options.device.empty() ? select_device(options.device) : backends.empty() ? select_device("cpu") : device_for_backend(backends.front()));
  const Folders folders = user_folders();
  OPFORGE_ASSIGN(Store store, Store::open(folders.cache));
  OPFORGE_ASSIGN(Records records, Records::open_in(folders.state));
  std::string text;
  nlohmann::json json = nlohmann::json::array();
  Table table({"operator", "shape", "dtypes", "contract", "tried", "failed", "baseline", "chosen", "speedup", "noise", "seconds", "variant"});
  bool interrupted_run = false;
  int exit = kOk;
  Progress progress(options.common.quiet);
  for (const Shape& shape : shapes) {
    const std::string what = fmt::format("{} {} {}", shape.op->signature.name, shape.bench.name, to_string(shape.bench.dtypes));
    OPFORGE_ASSIGN(TuneRequest request, prepare(options, shape, device, pack, store, records));
    request.progress = [&](const TuneProgress& state) { progress.update(progress_line(what, state)); };
    const Contract contract = request.contract;
    OPFORGE_ASSIGN(TuneReport report, tune(std::move(request)));
    json.push_back(report_json(report));
    const ChoiceRecord& choice = report.choice;
    table.row({shape.op->signature.name, shape.bench.name, to_string(shape.bench.dtypes), std::string(tier_name(contract)),
               std::to_string(report.tried), std::to_string(report.failed), report.chosen ? human_us(choice.baseline_us) : "-",
               report.chosen ? human_us(choice.median_us) : "-",
               report.chosen && choice.median_us > 0 ? fmt::format("{:.3f}x", choice.baseline_us / choice.median_us) : "-",
               report.chosen ? fmt::format("{:.1f} %", 100 * choice.noise) : "-", fmt::format("{:.1f}", report.wall_s),
               report.chosen ? to_string(choice.variant) : "-"});
    text += fmt::format("{}: {}{}\n", what, report.why, report.from_records ? " (on record; --again measures anew)" : "");
    for (const std::string& line : failure_lines(report)) text += "  failed: " + line + "\n";
    for (const std::string& line : report.warnings) text += "  warning: " + line + "\n";
    if (options.trials) {
      for (const TrialRecord& trial : report.trials) {
        text += fmt::format("  {:<14} {:>12} ratio {:.3f} {} {}\n", trial_outcome_name(trial.outcome), human_us(trial.time_us.median),
                            trial.ratio.median, to_string(trial.variant), trial.reason);
      }
    }
    if (report.interrupted) {
      text += report.resume + "\n";
      interrupted_run = true;
      break;
    }
    if (!report.chosen) exit = kFailed;
  }
  text = table.text() + "\n" + text + fmt::format("records: {}\n", records.file().empty() ? "in memory only (no state folder)" : records.file().string());
  return finish(options.common, text, json, interrupted_run ? 130 : exit);
}

struct RecordOptions {
  Common common;
  RecordFilter filter;
  std::string file;
};

void add_filter(CLI::App& command, RecordOptions& options) {
  command.add_option("--op", options.filter.op, "Only this operator");
  command.add_option("--target", options.filter.target, "Only this target");
  command.add_option("--device-model", options.filter.device_model, "Only this device model");
  add_common(command, options.common);
}

Result<int> list_records(const RecordOptions& options) {
  OPFORGE_ASSIGN(Records records, Records::open_in(user_folders().state));
  OPFORGE_ASSIGN(auto listed, records.list(options.filter));
  Table table({"context", "trials", "failures", "chosen"});
  nlohmann::json json = nlohmann::json::array();
  for (const Records::Listed& each : listed) {
    table.row({each.context.describe(), std::to_string(each.trials), std::to_string(each.failures), each.chosen ? "yes" : "no"});
    json.push_back({{"context", each.context.describe()}, {"trials", each.trials}, {"failures", each.failures}, {"chosen", each.chosen}});
  }
  return finish(options.common, table.text(), json);
}

void add_records(CLI::App& app) {
  CLI::App* records = app.add_subcommand("records", "Tuning records: list, clear, export, import, merge");
  records->require_subcommand(1);
  auto list = std::make_shared<RecordOptions>();
  CLI::App* list_command = records->add_subcommand("list", "Every context with its trials and whether a choice was made");
  add_filter(*list_command, *list);
  set_body(*list_command, [list] { return list_records(*list); });
  auto clear = std::make_shared<RecordOptions>();
  CLI::App* clear_command = records->add_subcommand("clear", "Forget contexts with their trials and choices");
  add_filter(*clear_command, *clear);
  set_body(*clear_command, [clear]() -> Result<int> {
    OPFORGE_ASSIGN(Records opened, Records::open_in(user_folders().state));
    OPFORGE_ASSIGN(std::size_t removed, opened.clear(clear->filter));
    return finish(clear->common, fmt::format("removed {} contexts\n", removed), {{"removed", removed}});
  });
  auto out = std::make_shared<RecordOptions>();
  CLI::App* export_command = records->add_subcommand("export", "Write records as JSON lines");
  export_command->add_option("file", out->file, "Where to")->required();
  add_filter(*export_command, *out);
  set_body(*export_command, [out]() -> Result<int> {
    OPFORGE_ASSIGN(Records opened, Records::open_in(user_folders().state));
    OPFORGE_ASSIGN(std::string lines, opened.export_json(out->filter));
    OPFORGE_TRY(write_file_atomic(out->file, lines));
    return finish(out->common, "wrote " + out->file + "\n", {{"file", out->file}});
  });
  auto in = std::make_shared<RecordOptions>();
  CLI::App* import_command = records->add_subcommand("import", "Add records that `export` wrote, e.g. on another machine");
  import_command->add_option("file", in->file, "JSON lines")->required();
  add_common(*import_command, in->common);
  set_body(*import_command, [in]() -> Result<int> {
    OPFORGE_ASSIGN(std::string lines, read_file(in->file));
    OPFORGE_ASSIGN(Records opened, Records::open_in(user_folders().state));
    OPFORGE_ASSIGN(std::size_t added, opened.import_json(lines));
    return finish(in->common, fmt::format("{} records were new\n", added), {{"added", added}});
  });
  auto merge = std::make_shared<RecordOptions>();
  CLI::App* merge_command = records->add_subcommand("merge", "Add the records of another database");
  merge_command->add_option("file", merge->file, "A tune.db")->required();
  add_common(*merge_command, merge->common);
  set_body(*merge_command, [merge]() -> Result<int> {
    OPFORGE_ASSIGN(Records opened, Records::open_in(user_folders().state));
    OPFORGE_ASSIGN(std::size_t added, opened.merge(merge->file));
    return finish(merge->common, fmt::format("{} records were new\n", added), {{"added", added}});
  });
}

}  // namespace

void add_tune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune_command = app.add_subcommand(
      "tune", "Try candidates in worker processes; adopt only what is right and surely faster (Ctrl-C keeps what is finished)");
  tune_command->add_option("operators", options->operators, "Operators")->required();
  tune_command->add_option("--shape", options->shapes, "M=4096,N=4096; may be repeated")->required()->allow_extra_args(false);
  tune_command->add_option("--dtype", options->dtype, "f32,bf16 or T=bf16,W=f32; default: all");
  tune_command->add_option("--backend", options->backends, "Whose kernels compete, e.g. cpu or cuda")->capture_default_str();
  tune_command->add_option("--device", options->device, "e.g. cuda:1; default: the backend's first device");
  tune_command->add_option("--contract", options->contract, "Tune for this contract; default: the operator's");
  tune_command->add_option("--attr", options->attributes, "eps=1e-5,...");
  tune_command->add_option("--budget", options->budget, "Candidates for each case")->capture_default_str();
  tune_command->add_option("--seconds", options->seconds, "Wall seconds for each case; 0: no limit");
  tune_command->add_option("--device-seconds", options->device_seconds, "Device seconds for each case; 0: no limit");
  tune_command->add_option("--search", options->search, "auto, exhaustive, random, local or halving")->capture_default_str();
  tune_command->add_option("--seed", options->seed, "Of the search; 0: follows from the case");
  tune_command->add_option("--cache", options->cache, "cold (rotated buffers) or warm")
      ->check(CLI::IsMember({"cold", "warm"}))
      ->capture_default_str();
  tune_command->add_option("--time-limit", options->limit_s, "Seconds that one candidate may take")->capture_default_str();
  tune_command->add_flag("--again", options->again, "Measure although a choice is on record");
  tune_command->add_flag("--no-prove", options->no_prove, "Do not run the suites on the winner");
  tune_command->add_flag("--trials", options->trials, "A line for each candidate");
  tune_command->add_option("--pack", options->pack, "Tune among what this pack holds (opforge build --candidates); nothing is compiled");
  tune_command->add_option("--trust", options->trust, "Trust this key (hex or a file); may be repeated")->allow_extra_args(false);
  tune_command->add_flag("--allow-unsigned", options->allow_unsigned, "Accept an unsigned pack");
  add_common(*tune_command, options->common);
  set_body(*tune_command, [options] { return run_tune(*options); });
  add_records(app);
}

}  // namespace opforge::cli
