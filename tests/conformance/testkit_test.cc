// One call runs every generic suite of an operator, whoever declared it.
#include "forge/testkit.hpp"

#include "conformance/cells.hpp"

namespace opforge::conformance {
namespace {

class WrongCalls : public testing::TestWithParam<std::string> {};

TEST_P(WrongCalls, AreRefusedByName) {
  const std::vector<ApiErrorResult> results = try_wrong_calls(*catalogue().find(GetParam()));
  EXPECT_GT(results.size(), 10u);
  for (const ApiErrorResult& result : results)
    EXPECT_TRUE(result.passed) << result.what << ": " << result.message;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Operator* op : catalogue().all()) out.push_back(op->signature.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(, WrongCalls, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string out = info.param;
                           std::replace(out.begin(), out.end(), '.', '_');
                           return out;
                         });

TEST(TestKit, ReportsCorrectnessApiErrorsAndBenchmarks) {
  const Operator& op = *catalogue().all().front();
  TestKitOptions options;
  options.backends = {"cpu"};
  const auto report = run_test_kit(op, store(), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok()) << report->first_failure();
  EXPECT_FALSE(report->suites.empty());
  EXPECT_FALSE(report->api_errors.empty());
  bool timed = false;
  for (const BenchResult& result : report->benchmarks) timed = timed || result.skipped.empty();
  EXPECT_TRUE(timed);
  EXPECT_NE(test_kit_to_json(*report).find("\"suites\""), std::string::npos);
}

TEST(TestKit, AWrongReferenceFailsIt) {
  Operator op = *catalogue().all().front();
  op.reference = [](ReferenceCall& call) {
    for (auto& [name, tensor] : call.tensors) {
      for (double& value : tensor.values) value = 12345;
    }
  };
  TestKitOptions options;
  options.backends = {"cpu"};
  options.api_errors = options.benchmarks = false;
  const auto report = run_test_kit(op, store(), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok());
  EXPECT_NE(report->first_failure().find("12345"), std::string::npos) << report->first_failure();
}

}  // namespace
}  // namespace opforge::conformance
