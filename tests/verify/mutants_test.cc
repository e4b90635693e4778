// Every planted fault must be found by the generic suites alone (mutants.hpp).
#include <gtest/gtest.h>

#include "verify/mutants_plant.hpp"

namespace opforge::conformance {
namespace {

class Mutants : public testing::TestWithParam<Mutant> {};

DTypeCombo dtypes_for(const Operator& op, const KernelDecl& kernel, const std::string& wanted) {
  for (const DTypeCombo& combo : op.signature.dtypes) {
    if (!has_dtypes(kernel, combo)) continue;
    if (wanted.empty() || dtypes_name(combo) == wanted) return combo;
  }
  return {};
}

TEST_P(Mutants, IsFound) {
  const Mutant& mutant = GetParam();
  auto folder = TempDir::create(std::filesystem::temp_directory_path(), "opforge-mutant");
  ASSERT_TRUE(folder) << folder.error().message;
  const auto op = plant(mutant, folder->path());
  ASSERT_TRUE(op) << op.error().message;
  const KernelDecl& kernel = op->kernels.front();
  const DTypeCombo dtypes = dtypes_for(*op, kernel, mutant.dtypes);
  ASSERT_FALSE(dtypes.empty()) << "no dtypes " << mutant.dtypes;
  DeviceInfo device;
  Target target;
  std::string why;
  const bool runs = find_device(*op, kernel, dtypes, device, target, why);
  if (!runs && std::getenv("OPFORGE_TEST_COMPILE_MUTANTS") == nullptr)
    GTEST_SKIP() << mutant.name() << " applies; not run: " << why;

  // Not every variant has the fault (a contiguous one has no column stride): one that is found is
  // enough.
  std::vector<Variant> variants = variants_of(*op, kernel, dtypes, target);
  std::reverse(variants.begin(), variants.end());
  std::string tried;
  for (const Variant& variant : variants) {
    const auto code = obtain(*op, kernel, variant, store(), nullptr);
    if (!code && code.error().code == Code::kUnavailable) GTEST_SKIP() << code.error().message;
    ASSERT_TRUE(code) << "does not compile: " << code.error().message;
    if (!runs) GTEST_SKIP() << mutant.name() << " compiles; not run: " << why;
    SuiteOptions options;
    options.tier = kernel.tier;
    options.stop_at_first_failure = true;
    const auto report = run_suites(*op, *code, device, options);
    ASSERT_TRUE(report) << report.error().message;
    for (const TrialResult& result : report->results) {
      if (result.outcome != Outcome::kFailed) continue;
      RecordProperty("found_by", result.suite + " " + result.trial + ": " + result.reason);
      std::printf("found by %s %s: %s\n", result.suite.c_str(), result.trial.c_str(),
                  result.reason.c_str());
      return;
    }
    tried += "\n  " + report->variant + ": " + std::to_string(report->passed) + " passed, " +
             std::to_string(report->refused) + " refused";
  }
  FAIL() << "survived all suites:" << tried;
}

INSTANTIATE_TEST_SUITE_P(, Mutants, testing::ValuesIn(all_mutants()),
                         [](const testing::TestParamInfo<Mutant>& info) {
                           return info.param.name();
                         });

}  // namespace
}  // namespace opforge::conformance
