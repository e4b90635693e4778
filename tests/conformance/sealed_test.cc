// A pack of every operator, run by a sealed process in which nothing can compile.
#include <gtest/gtest.h>

#include <cstdlib>

#include "artifact/pack.hpp"
#include "base/process.hpp"
#include "conformance/cells.hpp"
#include "forge/build.hpp"
#include "runtime/runtime.hpp"
#include "runtime/seal.hpp"
#include "verify/judge.hpp"

namespace opforge::conformance {
namespace {

class SealedPack : public testing::TestWithParam<std::string> {};

// Dims of a case that code is built for; sealed calls use others as well.
ValueMap first_case(const Operator& op) {
  for (const Case& each : op.cases) {
    if ((each.uses & unsigned(CaseUse::kTest)) != 0) return each.dims;
  }
  return op.cases.front().dims;
}

TEST_P(SealedPack, ServesWithoutACompiler) {
  const Operator& op = *catalogue().find(GetParam());
  auto folder = TempDir::create(std::filesystem::temp_directory_path(), "opforge-sealed");
  ASSERT_TRUE(folder) << folder.error().message;
  const SigningKey key = SigningKey::generate();
  BuildRequest request;
  request.operators = {&op};
  for (const DeviceInfo& device : all_devices()) {
    if (device.device.kind == DeviceKind::kCpu)
      request.targets.push_back(native_targets(device).front().name);
  }
  request.shapes = {first_case(op)};
  request.dtypes = {op.signature.dtypes.front().begin()->second};
  request.jobs = 1;
  request.store = &store();
  request.key = &key;
  request.output = folder->path() / "sealed.ofpack";
  const auto report = build_pack(request);
  ASSERT_TRUE(report) << report.error().message;
  for (const BuildRow& row : report->rows) {
    EXPECT_TRUE(row.outcome == BuildOutcome::kCompiled || row.outcome == BuildOutcome::kLoaded ||
                row.outcome == BuildOutcome::kSkipped)
        << row.variant << ": " << row.reason;
  }
  ASSERT_TRUE(report->written);
  EXPECT_EQ(report->proofs_failed, 0u);

  ProcessSpec child;
  child.argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                "--gtest_also_run_disabled_tests", "--gtest_filter=DISABLED_SealedChild.Runs"};
  child.clear_environment = true;  // no PATH, no HOME, no cache
  child.environment = {{"OPFORGE_TEST_PACK", request.output.string()},
                       {"OPFORGE_TEST_OP", op.signature.name},
                       {"OPFORGE_TEST_KEY", key.public_hex()}};
  child.time_limit_s = 120;
  const auto result = run_process(child);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->end == ProcessEnd::kExited && result->exit_code == 0)
      << result->describe() << "\n"
      << result->output << result->errors;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> out;
  for (const Operator* op : catalogue().all()) out.push_back(op->signature.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(, SealedPack, testing::ValuesIn(operator_names()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string out = info.param;
                           std::replace(out.begin(), out.end(), '.', '_');
                           return out;
                         });

// The sealed process. It knows the operator only to draw inputs and to judge the outputs.
TEST(DISABLED_SealedChild, Runs) {
  const char* path = std::getenv("OPFORGE_TEST_PACK");
  if (path == nullptr) GTEST_SKIP() << "started by SealedPack";
  const Operator& op = *catalogue().find(std::getenv("OPFORGE_TEST_OP"));
  Trust trust;
  trust.keys = {std::getenv("OPFORGE_TEST_KEY")};
  auto pack = Pack::open(path, trust);
  ASSERT_TRUE(pack) << pack.error().message;
  Runtime runtime;
  runtime.add_source(*pack);
  seal();
  int ran = 0;
  for (const Layout layout :
       {Layout::kContiguous, Layout::kMisaligned, Layout::kPaddedRows, Layout::kEverySecond}) {
    for (const std::int64_t rows : {0, 1, 5}) {
      Trial trial;
      trial.dims = first_case(op);
      if (const std::string symbol = batch_symbol(op.signature); !symbol.empty())
        trial.dims[symbol] = rows;
      trial.name = std::to_string(rows) + " rows " + std::string(layout_name(layout));
      trial.dtypes = op.signature.dtypes.front();
      trial.layout = layout;
      trial.seed = 11;
      auto memory = TrialMemory::make(op, trial, *find_device_api(DeviceKind::kCpu), {});
      if (!memory) continue;
      CallOptions options;
      options.contract = op.signature.default_contract;
      const auto outcome =
          runtime.call(op.signature.name, memory->views(), trial.attributes, options);
      ASSERT_TRUE(outcome) << trial.name << ": " << outcome.error().message;
      ASSERT_FALSE(outcome->has_value()) << trial.name << ": " << (*outcome)->reason;
      EXPECT_TRUE(memory->unchanged()) << trial.name;
      const auto verdict = judge(op, *memory, op.tolerances.at(op.signature.default_contract));
      ASSERT_TRUE(verdict) << verdict.error().message;
      EXPECT_EQ(verdict->problem, "") << trial.name;
      ++ran;
    }
  }
  EXPECT_GE(ran, 3);
  EXPECT_TRUE(sealed_misses().empty()) << sealed_misses().front();
}

}  // namespace
}  // namespace opforge::conformance
