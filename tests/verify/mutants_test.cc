// Every planted fault must be found by the generic suites alone (mutants.hpp).
#include <gtest/gtest.h>

#include "base/process.hpp"
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

// What the suites say of one mutant.
struct Judgement {
  bool found = false;
  std::string by;  // found: suite, trial, reason; else what was tried
};

// Not every variant has the fault (a contiguous one has no column stride): one that is found is
// enough.
Result<Judgement> judge_mutant(const Operator& op, const KernelDecl& kernel,
                               const DTypeCombo& dtypes, const DeviceInfo& device,
                               const Target& target) {
  Judgement out;
  std::vector<Variant> variants = variants_of(op, kernel, dtypes, target);
  std::reverse(variants.begin(), variants.end());
  for (const Variant& variant : variants) {
    OPFORGE_ASSIGN(const BuiltCode code, obtain(op, kernel, variant, store(), nullptr));
    SuiteOptions options;
    options.tier = kernel.tier;
    options.stop_at_first_failure = true;
    OPFORGE_ASSIGN(const SuiteReport report, run_suites(op, code, device, options));
    for (const TrialResult& result : report.results) {
      if (result.outcome == Outcome::kFailed)
        return Judgement{true, result.suite + " " + result.trial + ": " + result.reason};
    }
    out.by += "\n  " + report.variant + ": " + std::to_string(report.passed) + " passed, " +
              std::to_string(report.refused) + " refused";
  }
  return out;
}

// A mutant may write anywhere: it is judged in a process of its own, and one that ends it is found
// too. The child says what it saw between these.
constexpr std::string_view kFound = "FOUND<<", kSurvived = "SURVIVED<<", kEnd = ">>END";
constexpr const char* kChildMark = "OPFORGE_MUTANT_CHILD";

Result<Judgement> judge_in_child(const Mutant& mutant) {
  ProcessSpec child;
  child.argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                "--gtest_filter=" + std::string("*Mutants.IsFound/") + mutant.name()};
  child.environment = {{kChildMark, "1"}};
  child.time_limit_s = 100;
  OPFORGE_ASSIGN(const ProcessResult result, run_process(child));
  for (const std::string_view mark : {kFound, kSurvived}) {
    const std::size_t at = result.output.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t from = at + mark.size();
    return Judgement{mark == kFound,
                     result.output.substr(from, result.output.find(kEnd, from) - from)};
  }
  if (result.end != ProcessEnd::kExited)
    return Judgement{true, "the process: " + result.describe()};
  return fail(Code::kInternal, result.describe() + "\n" + result.output + result.errors);
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

  if (std::getenv(kChildMark) != nullptr) {
    const auto judgement = judge_mutant(*op, kernel, dtypes, device, target);
    ASSERT_TRUE(judgement) << judgement.error().message;
    std::printf("%s%s%s\n", (judgement->found ? kFound : kSurvived).data(), judgement->by.c_str(),
                kEnd.data());
    return;
  }
  if (!runs) {
    const auto code =
        obtain(*op, kernel, variants_of(*op, kernel, dtypes, target).front(), store(), nullptr);
    ASSERT_TRUE(code || code.error().code == Code::kUnavailable)
        << "does not compile: " << code.error().message;
    GTEST_SKIP() << mutant.name() << (code ? " compiles" : " applies") << "; not run: " << why;
  }
  const auto judgement = judge_in_child(mutant);
  ASSERT_TRUE(judgement) << judgement.error().message;
  EXPECT_TRUE(judgement->found) << "survived all suites:" << judgement->by;
  RecordProperty("found_by", judgement->by);
  std::printf("found by %s\n", judgement->by.c_str());
}

INSTANTIATE_TEST_SUITE_P(, Mutants, testing::ValuesIn(all_mutants()),
                         [](const testing::TestParamInfo<Mutant>& info) {
                           return info.param.name();
                         });

}  // namespace
}  // namespace opforge::conformance
