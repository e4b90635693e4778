// Real kernels that misbehave, in real workers.
#include "tune/worker.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include "artifact/store.hpp"
#include "runtime/seal.hpp"
#include "tests/tune/tune_fixture.hpp"

namespace opforge {
namespace {

const std::string kWorker = std::string(OPFORGE_BINARY_DIR) + "/tests/tune/opforge_tune_worker";

class WorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    develop();  // compiling is what these tests ask for
    // Kept between runs: what is tested is not the compiler.
    store_ = new Store(Store::open(Path(OPFORGE_BINARY_DIR) / "tests/tune/store").value());
    catalogue_ = new Catalogue(test::test_catalogue().value());
  }
  static void TearDownTestSuite() {
    delete catalogue_;
    delete store_;
  }
  static const Operator& op() { return *catalogue_->find("test.misbehave"); }
  static TuneRequest request() {
    auto request = test::cpu_request(op(), *store_, kWorker).value();
    request.worker.time_limit_s = 8;
    request.worker.memory_limit_bytes = std::uint64_t{1} << 30;
    return request;
  }
  static std::int64_t fault(const Variant& variant) {
    return std::get<std::int64_t>(variant.values.at("FAULT"));
  }
  static BuiltCode code(std::int64_t wanted) {
    const auto all = request();
    for (const Variant& variant : all.space) {
      if (fault(variant) != wanted) continue;
      bool compiled;
      auto built = all.hooks.obtain(variant, &compiled);
      EXPECT_TRUE(built) << (built ? "" : built.error().message);
      return *built;
    }
    return {};
  }
  static WorkerEvaluator evaluator(WorkerOptions options) {
    const auto r = request();
    return WorkerEvaluator({r.op, r.shape, r.device, r.cache, false}, std::move(options));
  }

  static Store* store_;
  static Catalogue* catalogue_;
};
Store* WorkerTest::store_;
Catalogue* WorkerTest::catalogue_;

// The hang is a test of its own: its limit must be short, that of the others long enough for any
// machine.
TEST_F(WorkerTest, EveryFaultIsClassifiedAndTheNextCandidateIsJudgedRight) {
  auto options = request().worker;
  options.time_limit_s = 120;
  auto worker = evaluator(options);
  ASSERT_TRUE(worker.open());
  using enum TrialOutcome;
  const std::pair<int, TrialOutcome> expected[] = {
      {1, kCrash},       {3, kAbort},       {4, kNoAnswer}, {5, kWrongResult},
      {6, kOutOfMemory}, {7, kWrongResult}, {8, kNaN},      {9, kWrongResult}};
  for (const auto& [number, outcome] : expected) {
    const auto answer = worker.check(code(number), 1);
    EXPECT_EQ(trial_outcome_name(answer.outcome), trial_outcome_name(outcome))
        << number << ": " << answer.reason;
    EXPECT_FALSE(answer.reason.empty());
    if (number == 9) {
      EXPECT_NE(answer.reason.find("never written"), std::string::npos) << answer.reason;
    }
  }
  const auto good = worker.check(code(0), 1);
  EXPECT_EQ(good.outcome, kMeasured) << good.reason;
  // A crash, an abort, an exit and a memory eater each cost one. So may the write past the end,
  // where memory ends there.
  EXPECT_GE(worker.workers_started(), 5u);
  EXPECT_LE(worker.workers_started(), 6u);
}

TEST_F(WorkerTest, AHangIsEndedAndTheNextCandidateIsJudgedRight) {
  auto options = request().worker;
  options.time_limit_s = 2;
  auto worker = evaluator(options);
  ASSERT_TRUE(worker.open());
  const auto answer = worker.check(code(2), 1);
  EXPECT_EQ(trial_outcome_name(answer.outcome), trial_outcome_name(TrialOutcome::kHang))
      << answer.reason;
  EXPECT_EQ(worker.workers_started(), 1u);
  const std::vector<BuiltCode> good{code(0)};
  EXPECT_EQ(worker.measure(good, {5, 1}).outcome, TrialOutcome::kMeasured);
  EXPECT_EQ(worker.workers_started(), 2u);
}

TEST_F(WorkerTest, TimesAndChecksAgainAfterTiming) {
  auto worker = evaluator(request().worker);
  ASSERT_TRUE(worker.open());
  const std::vector<BuiltCode> codes{code(0), code(10)};
  const auto answer = worker.measure(codes, {15, 3});
  ASSERT_EQ(answer.outcome, TrialOutcome::kMeasured) << answer.reason;
  ASSERT_EQ(answer.comparison.readings.size(), 2u);
  EXPECT_EQ(answer.comparison.readings[0].rejected, "");
  EXPECT_GT(answer.comparison.readings[0].time_us.median, 0);
  EXPECT_EQ(answer.comparison.readings[1].rejected.rfind("wrong", 0), 0u)
      << answer.comparison.readings[1].rejected;
}

TEST_F(WorkerTest, ATuneGoesOnOverAllOfThem) {
  auto all = request();
  all.worker.time_limit_s = 8;
  const auto report = tune(std::move(all));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tried, 10);
  EXPECT_EQ(report->failed, 10);
  EXPECT_FALSE(report->choice.adopted);
  EXPECT_EQ(report->trials[0].outcome, TrialOutcome::kMeasured) << report->trials[0].reason;
  EXPECT_EQ(failure_lines(*report).size(), 10u);
}

TEST_F(WorkerTest, AWorkerThatCannotStartIsAnErrorThatSaysWhy) {
  for (const std::string& program :
       {std::string("/no/such/worker"), std::string("/bin/true"), std::string("/bin/cat")}) {
    WorkerOptions options;
    options.argv = {program};
    auto worker = evaluator(options);
    const auto status = worker.open();
    ASSERT_FALSE(status) << program;
    EXPECT_NE(status.error().message.find("worker"), std::string::npos) << status.error().message;
  }
}

TEST_F(WorkerTest, ALyingWorkerIsNoAnswer) {
  WorkerOptions options;
  options.argv = {"/bin/sh", "-c",
                  "read a; echo '{\"ok\":true,\"ceiling\":1}'; while read a; do echo "
                  "'{\"ok\":true,\"outcome\":\"measured\"}'; done"};
  auto worker = evaluator(options);
  ASSERT_TRUE(worker.open());
  EXPECT_EQ(worker.check(code(0), 1).outcome, TrialOutcome::kNoAnswer);
  const std::vector<BuiltCode> codes{code(0)};
  EXPECT_EQ(worker.measure(codes, {}).outcome, TrialOutcome::kNoAnswer);
}

TEST_F(WorkerTest, Interrupted) {
  auto options = request().worker;
  bool stop = false;
  options.cancelled = [&] { return stop; };
  auto worker = evaluator(options);
  ASSERT_TRUE(worker.open());
  stop = true;
  EXPECT_EQ(worker.check(code(2), 1).outcome, TrialOutcome::kOther);
}

TEST(ClassifyEnd, NamesWhatHappened) {
  ProcessResult result;
  result.end = ProcessEnd::kSignalled;
  result.signal = SIGSEGV;
  result.errors = "something\nlast words\n";
  EXPECT_EQ(classify_end(result).outcome, TrialOutcome::kCrash);
  EXPECT_NE(classify_end(result).reason.find("SIGSEGV"), std::string::npos);
  EXPECT_NE(classify_end(result).reason.find("last words"), std::string::npos);
  result.signal = SIGKILL;
  EXPECT_EQ(classify_end(result).outcome, TrialOutcome::kOutOfMemory);
  result.end = ProcessEnd::kExited;
  EXPECT_EQ(classify_end(result).outcome, TrialOutcome::kNoAnswer);
}

}  // namespace
}  // namespace opforge
