#include "forge/testkit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "forge/defaults.hpp"
#include "forge/verify.hpp"
#include "runtime/backends.hpp"

namespace opforge {
namespace {

constexpr double kQuickBytes = 64e6;

class TestKit {
 public:
  TestKit(const Operator& op, Store& store, const TestKitOptions& options)
      : op_(op), store_(store), options_(options) {
    report_.op = op.signature.name;
  }

  Result<TestKitReport> run() {
    if (options_.correctness) OPFORGE_TRY(correctness());
    if (options_.api_errors) report_.api_errors = try_wrong_calls(op_);
    if (options_.benchmarks) OPFORGE_TRY(benchmarks());
    return std::move(report_);
  }

 private:
  void say(std::string_view line) const {
    if (options_.progress) options_.progress(line);
  }

  Status correctness() {
    VerifyRequest request;
    request.backends = options_.backends;
    request.suite.budget = options_.budget;
    request.suite.cancelled = options_.cancelled;
    request.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
      say(fmt::format("[{}/{}] {}", done + 1, total, what));
    };
    OPFORGE_ASSIGN(std::vector<VerifyEntry> entries, prove_operator(op_, store_, request));
    for (VerifyEntry& entry : entries) {
      if (!entry.report.results.empty()) {
        report_.suites.push_back(std::move(entry.report));
        continue;
      }
      const std::string what =
          entry.variant.empty() ? entry.kernel + " " + entry.dtypes : entry.variant;
      auto& list = entry.outcome == VerifyOutcome::kFailed ? report_.not_compiled : report_.not_run;
      list.push_back(what + ": " + entry.reason);
    }
    return {};
  }

  bool wanted(const std::string& backend) const {
    if (options_.backends.empty()) return true;
    for (const std::string& name : options_.backends) {
      if (name == backend) return true;
    }
    return false;
  }

  Status benchmarks() {
    for (const DeviceInfo& device : all_devices()) {
      DeviceApi* api = find_device_api(device.device.kind);
      if (api == nullptr) continue;
      Result<CopyCeiling> ceiling = measure_copy_ceiling(*api, device);
      for (const Case& each : op_.cases) {
        if ((each.uses & static_cast<unsigned>(CaseUse::kBench)) == 0) continue;
        for (const DTypeCombo& dtypes : op_.signature.dtypes) {
          BenchResult result;
          result.device = device.model;
          result.shape = each.name;
          result.dtypes = to_string(dtypes);
          if (!ceiling) {
            result.skipped = ceiling.error().message;
          } else {
            OPFORGE_TRY(bench({each.name, each.dims, each.attributes, dtypes}, *api, device,
                              *ceiling, result));
          }
          report_.benchmarks.push_back(std::move(result));
          if (options_.budget == Budget::kQuick) break;
        }
      }
    }
    return {};
  }

  // One kernel of each backend that runs here, its default variant.
  std::vector<BuiltCode> contenders(const BenchShape& shape, const DeviceInfo& device,
                                    std::string& why) {
    std::vector<BuiltCode> out;
    for (const KernelDecl& kernel : op_.kernels) {
      if (!wanted(kernel.backend)) continue;
      for (const Target& target : native_targets(device)) {
        if (Support support = compiles_for(op_, kernel, shape.dtypes, target); !support) {
          if (why.empty()) why = support.reason();
          continue;
        }
        auto variant = default_variant(op_, kernel, {shape.dims, shape.attributes, shape.dtypes},
                                       target, device);
        auto code = variant ? obtain(op_, kernel, *variant, store_, nullptr)
                            : Result<BuiltCode>(fail(variant.error()));
        if (code) {
          out.push_back(std::move(*code));
        } else if (why.empty()) {
          why = code.error().message;
        }
        break;
      }
    }
    return out;
  }

  Status bench(const BenchShape& shape, DeviceApi& api, const DeviceInfo& device,
               const CopyCeiling& ceiling, BenchResult& result) {
    OPFORGE_ASSIGN(const Floor floor, floor_of(op_, shape, device, ceiling));
    if (options_.budget == Budget::kQuick && floor.bytes > kQuickBytes) {
      result.skipped = "larger than a quick run takes";
      return {};
    }
    const std::vector<BuiltCode> codes = contenders(shape, device, result.skipped);
    if (codes.empty()) {
      if (result.skipped.empty()) result.skipped = "no kernel runs here";
      return {};
    }
    result.skipped.clear();
    MeasureOptions measure;
    measure.cancelled = options_.cancelled;
    measure.rounds = options_.budget == Budget::kQuick ? 7 : 21;
    measure.time_limit_s = options_.budget == Budget::kQuick ? 1 : 10;
    say(fmt::format("bench {} {} on {}", shape.name, to_string(shape.dtypes), device.model));
    auto comparison = bench_code(op_, codes, shape, api, device, ceiling, measure);
    if (!comparison) {
      if (comparison.error().code == Code::kCancelled) return fail(comparison.error());
      result.skipped = comparison.error().message;
      return {};
    }
    result.comparison = std::move(*comparison);
    return {};
  }

  const Operator& op_;
  Store& store_;
  const TestKitOptions& options_;
  TestKitReport report_;
};

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json bench_json(const BenchResult& result) {
  nlohmann::ordered_json row{
      {"shape", result.shape}, {"dtypes", result.dtypes}, {"device", result.device}};
  if (!result.skipped.empty()) {
    row["skipped"] = result.skipped;
    return row;
  }
  for (const Reading& reading : result.comparison.readings) {
    row["readings"].push_back({{"variant", reading.name},
                               {"median_us", number(reading.time_us.median)},
                               {"p20_us", number(reading.time_us.p20)},
                               {"p80_us", number(reading.time_us.p80)},
                               {"gb_per_s", number(reading.bytes_per_second / 1e9)},
                               {"share_of_ceiling", number(reading.share_of_ceiling)},
                               {"rejected", reading.rejected}});
  }
  row["noise"] = number(result.comparison.noise);
  return row;
}

}  // namespace

bool TestKitReport::ok() const { return first_failure().empty(); }

std::string TestKitReport::first_failure() const {
  if (!not_compiled.empty()) return "does not compile: " + not_compiled.front();
  for (const SuiteReport& suite : suites) {
    if (!suite.ok()) return suite.variant + ": " + suite.first_failure();
  }
  for (const ApiErrorResult& error : api_errors) {
    if (!error.passed) return "wrong call (" + error.what + "): " + error.message;
  }
  for (const BenchResult& result : benchmarks) {
    for (const Reading& reading : result.comparison.readings) {
      if (reading.rejected.starts_with("wrong"))
        return reading.name + " at " + result.shape + ": " + reading.rejected;
    }
  }
  if (suites.empty() && api_errors.empty() && benchmarks.empty()) return "nothing was run";
  return {};
}

std::string test_kit_to_json(const TestKitReport& report) {
  nlohmann::ordered_json out{
      {"op", report.op}, {"ok", report.ok()}, {"first_failure", report.first_failure()}};
  out["suites"] = nlohmann::ordered_json::array();
  for (const SuiteReport& suite : report.suites)
    out["suites"].push_back(nlohmann::ordered_json::parse(report_to_json(suite)));
  out["not_run"] = report.not_run;
  out["not_compiled"] = report.not_compiled;
  out["api_errors"] = nlohmann::ordered_json::array();
  for (const ApiErrorResult& error : report.api_errors) {
    out["api_errors"].push_back(
        {{"what", error.what}, {"passed", error.passed}, {"message", error.message}});
  }
  out["benchmarks"] = nlohmann::ordered_json::array();
  for (const BenchResult& result : report.benchmarks)
    out["benchmarks"].push_back(bench_json(result));
  return out.dump(2);
}

Result<TestKitReport> run_test_kit(const Operator& op, Store& store,
                                   const TestKitOptions& options) {
  return TestKit(op, store, options).run();
}

}  // namespace opforge
