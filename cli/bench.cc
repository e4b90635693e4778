// opforge bench: time an operator's kernels on this machine, in one run with the copy ceiling.
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/session.hpp"
#include "forge/catalogue.hpp"
#include "measure/bench.hpp"
#include "operator/infer.hpp"
#include "runtime/backends.hpp"

namespace opforge::cli {
namespace {

struct BenchOptions {
  Common common;
  std::vector<std::string> operators;
  std::vector<std::string> shapes, cases;
  std::string suite, backend = "cpu", device, dtype, tier, pack, cache = "cold", attributes;
  std::size_t rounds = 21;
  bool allow_unsigned = false;
};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

Result<std::vector<BenchShape>> shapes_of(const Operator& op, const BenchOptions& options) {
  OPFORGE_ASSIGN(auto dtypes, parse_dtypes(op.signature, options.dtype));
  OPFORGE_ASSIGN(ValueMap attributes, parse_attributes(op.signature, options.attributes));
  std::vector<BenchShape> shapes;
  for (const DTypeCombo& combo : dtypes) {
    for (const std::string& text : options.shapes) {
      OPFORGE_ASSIGN(ValueMap dims, parse_shape(text));
      shapes.push_back({text, dims, attributes, combo});
    }
    if (!options.shapes.empty()) continue;
    for (const Case& each : op.cases) {
      const bool named = std::find(options.cases.begin(), options.cases.end(), each.name) != options.cases.end();
      if (!named && (!options.cases.empty() || !(each.uses & unsigned(CaseUse::kBench)))) continue;
      BenchShape shape{each.name, each.dims, each.attributes, combo};
      for (const auto& [name, value] : attributes) shape.attributes[name] = value;
      shapes.push_back(shape);
    }
  }
  if (shapes.empty()) {
    std::vector<std::string> known;
    for (const Case& each : op.cases) known.push_back(each.name);
    return fail(Code::kInvalidArgument, fmt::format("{}: no shape to time; give --shape M=..,N=.. or --case one of: {}",
                                                    op.signature.name, join(known, ", ")));
  }
  return shapes;
}

nlohmann::json reading_json(const Operator& op, const BenchShape& shape, const Artifact& artifact, const Reading& reading,
                            const Floor& floor) {
  return {{"op", op.signature.name},
          {"case", shape.name},
          {"dims", to_json(shape.dims)},
          {"attributes", to_json(shape.attributes)},
          {"dtypes", to_string(shape.dtypes)},
          {"kernel", artifact.variant.kernel},
          {"backend", artifact.variant.backend},
          {"tier", tier_name(artifact.variant.tier)},
          {"variant", to_string(artifact.variant)},
          {"target", artifact.variant.target},
          {"code_key", artifact.code_key.hex()},
          {"median_us", reading.time_us.median},
          {"p20_us", reading.time_us.p20},
          {"p80_us", reading.time_us.p80},
          {"rounds", reading.time_us.count},
          {"runs_per_sample", reading.runs_per_sample},
          {"bytes", floor.bytes},
          {"flops", floor.flops},
          {"floor_us", floor.least_us()},
          {"gb_per_s", reading.bytes_per_second / 1e9},
          {"gflop_per_s", reading.flops_per_second / 1e9},
          {"share_of_copy", reading.share_of_ceiling},
          {"rejected", reading.rejected}};
}

Result<int> run_bench(const BenchOptions& options) {
  OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(options.common.plugins));
  OPFORGE_ASSIGN(auto ops, select_operators(catalogue, options.operators));
  OPFORGE_ASSIGN(auto tiers, parse_tiers(options.tier));
  if (tiers.empty()) tiers.assign(kAllTiers.begin(), kAllTiers.end());
  SessionOptions session_options{.pack = options.pack, .trust = {}, .allow_unsigned = options.allow_unsigned, .sealed = false,
                                 .backend = options.suite.empty() ? options.backend : "", .device = options.device, .contract = "", .proof = "off"};
  OPFORGE_ASSIGN(Session session, Session::open(session_options, options.common, ops.front()->signature.name));
  const DeviceInfo device = session.device();
  DeviceApi& api = *find_device_api(device.device.kind);
  OPFORGE_ASSIGN(CopyCeiling ceiling, measure_copy_ceiling(api, device));
  MeasureOptions measure;
  measure.cache = options.cache == "warm" ? CacheMode::kWarm : CacheMode::kCold;
  measure.rounds = options.rounds;
  measure.cancelled = [] { return interrupted(); };

  Table table({"operator", "case", "dtypes", "kernel", "tier", "median", "p20", "p80", "GB/s", "of copy", "note"});
  nlohmann::json rows = nlohmann::json::array();
  Progress progress(options.common.quiet);
  bool failed = false;
  for (const Operator* op : ops) {
    OPFORGE_ASSIGN(auto shapes, shapes_of(*op, options));
    for (const BenchShape& shape : shapes) {
      if (interrupted()) return fail(Code::kCancelled, "interrupted; nothing was written");
      progress.update(fmt::format("{} {} {}", op->signature.name, shape.name, to_string(shape.dtypes)));
      const std::string_view name = op->signature.name;
      OPFORGE_TRY(session.want(name, shape.dims, shape.attributes, shape.dtypes));
      OPFORGE_ASSIGN(auto tensors, placeholder_tensors(op->signature, shape.dims, shape.dtypes, shape.attributes, device.device));
      std::vector<std::string> backends{options.backend};
      if (!options.suite.empty()) {
        OPFORGE_ASSIGN(backends, session.backends(name));
      }
      OPFORGE_ASSIGN(auto codes, session.chosen(name, tensors, shape.attributes, tiers, backends));
      if (codes.empty()) {
        table.row({op->signature.name, shape.name, to_string(shape.dtypes), "-", "-", "-", "-", "-", "-", "-",
                   fmt::format("no kernel of {} serves this on {}", options.suite.empty() ? "backend " + options.backend : "any backend",
                               device_name(device.device))});
        continue;
      }
      OPFORGE_ASSIGN(Floor floor, floor_of(*op, shape, device, ceiling));
      auto comparison = bench_code(*op, codes, shape, api, device, ceiling, measure);
      if (!comparison) {
        failed = true;
        table.row({op->signature.name, shape.name, to_string(shape.dtypes), "-", "-", "-", "-", "-", "-", "-",
                   comparison.error().message});
        rows.push_back({{"op", op->signature.name}, {"case", shape.name}, {"dtypes", to_string(shape.dtypes)},
                        {"error", comparison.error().message}});
        continue;
      }
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const Reading& reading = comparison->readings[i];
        const Artifact& artifact = codes[i].artifact;
        table.row({op->signature.name, shape.name, to_string(shape.dtypes), artifact.variant.kernel,
                   std::string(tier_name(artifact.variant.tier)), human_us(reading.time_us.median),
                   human_us(reading.time_us.p20), human_us(reading.time_us.p80),
                   fmt::format("{:.1f}", reading.bytes_per_second / 1e9), fmt::format("{:.3f}", reading.share_of_ceiling),
                   reading.rejected.empty() ? fmt::format("noise {:.1f} %", 100 * comparison->noise) : reading.rejected});
        rows.push_back(reading_json(*op, shape, artifact, reading, floor));
      }
    }
  }
  const nlohmann::json json = {{"date", utc_now()},
                               {"opforge", OPFORGE_VERSION},
                               {"device", device.model},
                               {"driver", device.driver_version},
                               {"units", device.sm_count},
                               {"cache", cache_mode_name(measure.cache)},
                               {"copy_ceiling", {{"gb_per_s", ceiling.bytes_per_second / 1e9},
                                                 {"method", ceiling.method},
                                                 {"buffer_bytes", ceiling.buffer_bytes},
                                                 {"noise", ceiling.noise}}},
                               {"rows", rows}};
  const std::string head =
      fmt::format("{}, {} units; copy ceiling {:.1f} GB/s ({}); {} cache\n\n", device.model, device.sm_count,
                  ceiling.bytes_per_second / 1e9, ceiling.method, cache_mode_name(measure.cache));
  return finish(options.common, head + table.text(), json, failed ? kFailed : kOk);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench = app.add_subcommand(
      "bench", "Time kernels: median, p20, p80, bandwidth and share of the copy ceiling measured in the same run");
  bench->add_option("operators", options->operators, "Operators; none: all");
  bench->add_option("--backend", options->backend, "Whose kernels")->capture_default_str();
  bench->add_option("--suite", options->suite, "backends: those of every backend on the device, side by side in one run")
      ->check(CLI::IsMember({"backends"}))
      ->excludes("--backend");
  bench->add_option("--device", options->device, "e.g. cuda:1; default: the backend's first device");
  bench->add_option("--shape", options->shapes, "M=4096,N=4096; may be repeated; default: the declared bench cases")
      ->allow_extra_args(false);
  bench->add_option("--case", options->cases, "Only these declared cases")->allow_extra_args(false);
  bench->add_option("--dtype", options->dtype, "f32,bf16 or T=bf16,W=f32; default: all");
  bench->add_option("--attr", options->attributes, "eps=1e-5,...");
  bench->add_option("--tier", options->tier, "Only kernels of these tiers");
  bench->add_option("--pack", options->pack, "Time what this pack would run instead of compiling");
  bench->add_flag("--allow-unsigned", options->allow_unsigned, "Accept an unsigned pack");
  bench->add_option("--cache", options->cache, "cold (rotated buffers) or warm")
      ->check(CLI::IsMember({"cold", "warm"}))
      ->capture_default_str();
  bench->add_option("--rounds", options->rounds, "Samples of each kernel")->check(CLI::Range(5, 1000))->capture_default_str();
  add_common(*bench, options->common);
  set_body(*bench, [options] { return run_bench(*options); });
}

}  // namespace opforge::cli
