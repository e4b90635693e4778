// Every generic suite for the operators of a plug-in: correctness against the double reference (hostile inputs, layouts, aliasing,
// memory, repeated bits), wrong calls, and benchmarks. Usage: test_myteam <plug-in>
#include <cstdio>
#include <cstdlib>

#include "base/files.hpp"
#include "forge/catalogue.hpp"
#include "forge/plugin.hpp"
#include "forge/testkit.hpp"
#include "runtime/seal.hpp"

namespace {

int print_error(const opforge::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace opforge;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <plug-in>\n", argv[0]);
    return 2;
  }
  setenv("OPFORGE_SOURCE_DIR", OPFORGE_SHARE_DIR, 0);  // where the installed kernel headers are
  develop();                                           // this process compiles

  const std::string plugin_path = argv[1];
  const auto plugin = load_plugin(plugin_path);
  if (!plugin) return print_error(plugin.error());
  const auto catalogue = load_catalogue({&plugin_path, 1});
  if (!catalogue) return print_error(catalogue.error());
  const auto scratch = TempDir::create(std::filesystem::temp_directory_path(), "myteam");
  if (!scratch) return print_error(scratch.error());
  auto store = Store::open(scratch->path() / "store");
  if (!store) return print_error(store.error());

  bool ok = true;
  for (const Operator& declared : plugin->operators) {
    const Operator& op = **catalogue->get(declared.signature.name);
    const auto report = run_test_kit(op, *store);
    if (!report) return print_error(report.error());
    std::printf("%s: %zu suites, %zu wrong calls, %zu benchmarks: %s\n", report->op.c_str(), report->suites.size(),
                report->api_errors.size(), report->benchmarks.size(), report->ok() ? "ok" : report->first_failure().c_str());
    for (const std::string& line : report->not_run) std::printf("  not run: %s\n", line.c_str());
    ok = ok && report->ok();
  }
  return ok ? 0 : 1;
}
