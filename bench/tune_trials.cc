// How often the tuner is right: 50 tunes each over real kernels that are really timed, with a
// planted winner of 10 %, one of 1 %, and two equal candidates. Prints JSON; bars in the report's
// "bar" fields. Usage: bench_tune_trials WORKER [TUNES]
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "artifact/store.hpp"
#include "runtime/seal.hpp"
#include "tests/tune/tune_fixture.hpp"

namespace opforge {
namespace {

struct Scenario {
  std::string name;
  std::vector<std::pair<std::int64_t, std::int64_t>> candidates;  // {WORK, TWIN}
  int at_least, at_most;  // of 50: adopted, or the same candidate
};

std::int64_t value(const Variant& variant, const char* name) {
  return std::get<std::int64_t>(variant.values.at(name));
}

// How often each variant was chosen.
Result<std::map<std::string, int>> run(const Operator& op, Store& store, const std::string& worker,
                                       const Scenario& scenario, int tunes) {
  std::map<std::string, int> chosen;
  for (int i = 0; i < tunes; ++i) {
    OPFORGE_ASSIGN(TuneRequest request, test::cpu_request(op, store, worker));
    std::erase_if(request.space, [&](const Variant& variant) {
      const std::pair wanted{value(variant, "WORK"), value(variant, "TWIN")};
      return std::find(scenario.candidates.begin(), scenario.candidates.end(), wanted) ==
             scenario.candidates.end();
    });
    request.search = i % 2 == 0 ? "exhaustive" : "random";  // the order of trials must not matter
    request.seed = static_cast<std::uint64_t>(i) + 1;
    OPFORGE_ASSIGN(const TuneReport report, tune(std::move(request)));
    if (!report.chosen)
      return fail(Code::kInternal, scenario.name + ": nothing was chosen: " + report.why, "bench");
    ++chosen[report.choice.adopted ? to_string(report.choice.variant) : "default"];
    fmt::print(stderr, "{} {}/{}: {} ({})\n", scenario.name, i + 1, tunes,
               to_string(report.choice.variant), report.why);
  }
  return chosen;
}

Result<nlohmann::json> run_all(const std::string& worker, int tunes) {
  const std::vector<Scenario> scenarios{
      {"winner by 10 %", {{1100, 0}, {1000, 0}}, 49, 50},
      {"winner by 1 %", {{1100, 0}, {1089, 0}}, 0, 1},
      {"two equal winners", {{1100, 0}, {1000, 0}, {1000, 1}}, 49, 50}};
  OPFORGE_ASSIGN(const Catalogue catalogue, test::test_catalogue());
  OPFORGE_ASSIGN(const TempDir folder,
                 TempDir::create(std::filesystem::temp_directory_path(), "opforge-tune-bench"));
  OPFORGE_ASSIGN(Store store, Store::open(folder.path()));
  nlohmann::json all = {{"device", detect_cpu().model}, {"tunes", tunes}};
  for (const Scenario& scenario : scenarios) {
    const auto start = std::chrono::steady_clock::now();
    OPFORGE_ASSIGN(const auto chosen,
                   run(*catalogue.find("test.planted"), store, worker, scenario, tunes));
    int most = 0;
    for (const auto& [variant, times] : chosen) {
      if (variant != "default") most = std::max(most, times);
    }
    all["scenarios"].push_back(
        {{"name", scenario.name},
         {"chosen", chosen},
         {"same_candidate", most},
         {"bar", fmt::format("{} to {} of 50", scenario.at_least, scenario.at_most)},
         {"met", most * 50 >= scenario.at_least * tunes && most * 50 <= scenario.at_most * tunes},
         {"seconds",
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()}});
  }
  return all;
}

}  // namespace
}  // namespace opforge

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} WORKER [TUNES]\n", argv[0]);
    return 2;
  }
  opforge::develop();
  const auto result = opforge::run_all(argv[1], argc > 2 ? std::atoi(argv[2]) : 50);
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    return 1;
  }
  fmt::print("{}\n", result->dump(2));
  return 0;
}
