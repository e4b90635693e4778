#include "tune/tuner.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/tune/stand_in.hpp"

namespace opforge {
namespace {

using test::Planted;
using test::request_for;
using test::StandIn;
using test::variant_of;
using test::World;

class TunerTest : public testing::Test {
 protected:
  TempDir dir_ = TempDir::create(std::filesystem::temp_directory_path(), "opforge-tuner").value();
  Operator op_ = test::plain_operator();
  World world_;

  TuneReport run(TuneRequest request, unsigned seed = 1) {
    StandIn stand_in(world_, seed);
    request.evaluator = &stand_in;
    auto report = tune(std::move(request));
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    return report ? std::move(*report) : TuneReport{};
  }
  Records records() { return Records::open_in(dir_.path()).value(); }
  static std::int64_t chosen(const TuneReport& report) {
    return World::a_of(report.choice.variant);
  }
};

TEST_F(TunerTest, AdoptsTheFastestThatIsRight) {
  world_.planted[3].time_us = 60;
  world_.planted[4] = {.time_us = 10, .check = TrialOutcome::kWrongResult};
  world_.planted[5] = {.time_us = 10, .check = TrialOutcome::kNaN};
  const auto report = run(request_for(op_, world_));
  ASSERT_TRUE(report.chosen);
  EXPECT_EQ(chosen(report), 3);
  EXPECT_TRUE(report.choice.adopted);
  EXPECT_NEAR(report.choice.median_us / report.choice.baseline_us, 0.6, 0.03);
  EXPECT_EQ(report.tried, 7);
  EXPECT_EQ(report.failed, 2);
  EXPECT_EQ(report.stopped_by, "space");
  EXPECT_TRUE(report.attestation.has_value());
  EXPECT_EQ(report.trials.size(), 8u);
  EXPECT_EQ(World::a_of(report.trials[0].variant), 0);
}

TEST_F(TunerTest, EveryKindOfMisbehaviourIsClassifiedAndTheGoodOneWins) {
  const TrialOutcome kinds[] = {TrialOutcome::kCrash,       TrialOutcome::kHang,
                                TrialOutcome::kAbort,       TrialOutcome::kNoAnswer,
                                TrialOutcome::kOutOfMemory, TrialOutcome::kDeviceError,
                                TrialOutcome::kNaN};
  std::int64_t a = 1;
  for (TrialOutcome kind : kinds) world_.planted[a++].check = kind;
  for (TrialOutcome kind : kinds) world_.planted[a++].timing = kind;
  world_.planted[a] = {.rejected = "a sample took -1 us: times must be finite and above zero"};
  world_.planted[a + 1] = {.time_us = 0};
  world_.planted[a + 2] = {.rejected = "impossible: 1 us is below the floor of 20 us"};
  world_.planted[a + 3] = {.rejected = "wrong: y[0] is 1, expected 2"};
  world_.planted[a + 4].time_us = 50;
  const auto report = run(request_for(op_, world_, a + 5));
  EXPECT_EQ(chosen(report), a + 4);
  const auto outcome = [&](std::int64_t of) {
    for (const auto& trial : report.trials) {
      if (World::a_of(trial.variant) == of) return trial.outcome;
    }
    return TrialOutcome::kOther;
  };
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    EXPECT_EQ(outcome(1 + static_cast<std::int64_t>(i)), kinds[i]);
    EXPECT_EQ(outcome(8 + static_cast<std::int64_t>(i)), kinds[i]);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(a + i), TrialOutcome::kNonsenseTime) << i;
  EXPECT_EQ(outcome(a + 3), TrialOutcome::kWrongResult);
  EXPECT_EQ(report.failed, a + 3);
}

TEST_F(TunerTest, AllFailingListsEveryReasonAndKeepsTheDefault) {
  world_.planted[1].compiles = world_.planted[2].compiles = false;
  world_.planted[3].check = TrialOutcome::kCrash;
  world_.planted[4].resources.shared_bytes = 300000;
  auto request = request_for(op_, world_, 5);
  request.device.shared_bytes = 232448;
  auto store = records();
  request.records = &store;
  const auto report = run(request);
  EXPECT_EQ(report.failed, 4);
  EXPECT_NE(report.why.find("all 4 candidates failed"), std::string::npos);
  const auto lines = failure_lines(report);
  EXPECT_EQ(lines.size(), 4u);
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  EXPECT_NE(text.find("static assertion"), std::string::npos);
  EXPECT_NE(text.find("needs 300000 bytes of shared memory, Test CPU has 232448"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("crash: planted"), std::string::npos);
  EXPECT_FALSE(report.chosen && report.choice.adopted);
}

TEST_F(TunerTest, ThreeCompileErrorsOneTooLargeOneGood) {
  for (int a : {1, 2, 3}) world_.planted[a].compiles = false;
  world_.planted[4].resources.shared_bytes = 300000;
  world_.planted[5].time_us = 70;
  auto request = request_for(op_, world_, 6);
  request.device.shared_bytes = 232448;
  EXPECT_EQ(chosen(run(request)), 5);
}

TEST_F(TunerTest, SlowerThanTheBaselineIsNeverAdopted) {
  for (int a = 1; a < 8; ++a) world_.planted[a].time_us = 101 + a;
  const auto report = run(request_for(op_, world_));
  ASSERT_TRUE(report.chosen);
  EXPECT_FALSE(report.choice.adopted);
  EXPECT_EQ(chosen(report), 0);
  EXPECT_EQ(report.choice.baseline_us, report.choice.median_us);
}

TEST_F(TunerTest, AnUnusableDefaultGivesWayToWhatWorks) {
  world_.planted[0].check = TrialOutcome::kCrash;
  world_.planted[1].compiles = false;
  world_.planted[3].time_us = 60;
  const auto report = run(request_for(op_, world_, 4));
  ASSERT_TRUE(report.chosen);
  EXPECT_EQ(chosen(report), 3);
  ASSERT_FALSE(report.warnings.empty());
  EXPECT_NE(report.warnings[0].find("default variant"), std::string::npos);
}

TEST_F(TunerTest, TooLittleMemoryKeepsTheDefaultAndRecordsNothingAsTuned) {
  world_.planted[0].check = TrialOutcome::kOutOfMemory;
  auto store = records();
  auto request = request_for(op_, world_);
  request.records = &store;
  const auto report = run(request);
  EXPECT_FALSE(report.chosen);
  EXPECT_FALSE(report.warnings.empty());
  EXPECT_TRUE(store.choices().value().empty());
  EXPECT_EQ(store.list().value().at(0).trials, 1);  // but it is on record that it failed
}

// 200 simulated tunes each; the real kernels of the benchmark have the same bars.
TEST_F(TunerTest, PlantedTenPercentWinsOnePercentDoesNot) {
  int ten = 0, one = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    world_.noise = 0.02;
    world_.planted.clear();
    world_.planted[5].time_us = 100 / 1.10;
    ten += chosen(run(request_for(op_, world_), seed)) == 5 ? 1 : 0;
    world_.planted[5].time_us = 100 / 1.01;
    one += chosen(run(request_for(op_, world_), seed)) != 0 ? 1 : 0;
  }
  EXPECT_GE(ten, 196);
  EXPECT_LE(one, 4);
}

TEST_F(TunerTest, EqualCandidatesGiveTheSameChoiceEveryTime) {
  world_.noise = 0.02;
  world_.planted[3].time_us = world_.planted[6].time_us = 80;
  world_.planted[3].resources.code_bytes = 5000;
  world_.planted[6].resources.code_bytes = 4000;
  int same = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto request = request_for(op_, world_);
    request.search = seed % 2 == 0 ? "exhaustive" : "random";
    request.seed = seed + 1;
    same += chosen(run(request, seed)) == 6 ? 1 : 0;
  }
  EXPECT_GE(same, 196);
}

TEST_F(TunerTest, BudgetsEndTheSearch) {
  auto request = request_for(op_, world_, 40);
  request.budget.candidates = 12;
  auto report = run(request);
  EXPECT_EQ(report.tried, 12);
  EXPECT_EQ(report.stopped_by, "candidates");
  request.budget = {.candidates = {}, .wall_s = {}, .device_s = 0.2};
  report = run(request);
  EXPECT_EQ(report.stopped_by, "device");
  EXPECT_LT(report.tried, 39);
  EXPECT_GT(report.device_s, 0.15);
  request.budget = {.candidates = {}, .wall_s = 1e-6, .device_s = {}};
  report = run(request);
  EXPECT_EQ(report.stopped_by, "wall");
  EXPECT_EQ(report.tried, 0);
}

TEST_F(TunerTest, BadRequestsAreNamed) {
  const auto refused = [&](auto change, std::string_view part) {
    auto request = request_for(op_, world_);
    change(request);
    StandIn stand_in(world_, 1);
    request.evaluator = &stand_in;
    const auto report = tune(std::move(request));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
    EXPECT_NE(report.error().message.find(part), std::string::npos) << report.error().message;
  };
  refused([](TuneRequest& r) { r.budget.candidates = 0; }, "a budget of 0 candidates");
  refused([](TuneRequest& r) { r.budget.wall_s = 0; }, "0 wall seconds");
  refused([](TuneRequest& r) { r.budget.device_s = -1; }, "-1 device seconds");
  refused([](TuneRequest& r) { r.space.clear(); }, "nothing to tune");
  refused([](TuneRequest& r) { r.target = "sm_90a"; }, "none of 8 variants");
  refused([](TuneRequest& r) { r.search = "magic"; }, "magic");
  refused([](TuneRequest& r) { r.baseline.tier = Tier::kFast, r.contract = Tier::kHighPrecision; },
          "does not serve HIGH_PRECISION");
}

TEST_F(TunerTest, DeterministicStaysInTheBitClassOfTheDefault) {
  auto request = request_for(op_, world_, 4);
  for (std::int64_t a = 0; a < 4; ++a)
    request.space.push_back(variant_of(a, 1));  // faster, other bits
  request.space.push_back(variant_of(7, 0, Tier::kFast));
  request.contract = Tier::kDeterministic;
  world_.planted[7].time_us = 10;
  world_.planted[2].time_us = 50;
  const auto report = run(request);
  EXPECT_EQ(report.tried, 3);
  EXPECT_EQ(chosen(report), 2);
  for (const auto& trial : report.trials)
    EXPECT_EQ(std::get<std::int64_t>(trial.variant.values.at("BITS")), 0);
}

TEST_F(TunerTest, AFinishedChoiceIsFoundAgainUntilTheCodeChanges) {
  world_.planted[3].time_us = 60;
  auto store = records();
  auto request = request_for(op_, world_);
  request.records = &store;
  EXPECT_EQ(chosen(run(request)), 3);
  const int compiles = world_.compiles;
  const auto again = run(request);
  EXPECT_TRUE(again.from_records);
  EXPECT_EQ(chosen(again), 3);
  EXPECT_EQ(world_.compiles, compiles);
  auto asked_again = request;
  asked_again.again = true;
  EXPECT_FALSE(run(asked_again).from_records);
  auto other_layout = request;
  other_layout.layout = "r16,c16";
  EXPECT_FALSE(run(other_layout).from_records);
  auto warm = request;
  warm.cache = CacheMode::kWarm;
  EXPECT_FALSE(run(warm).from_records);
  EXPECT_TRUE(run(warm).from_records);
  EXPECT_FALSE(run(request).from_records);  // the warm choice has taken its place
  world_.source = "v2";
  const auto edited = run(request);
  EXPECT_FALSE(edited.from_records);
  EXPECT_EQ(edited.known, 0);
}

TEST_F(TunerTest, InterruptedKeepsWhatIsDoneAndTheSameCommandGoesOn) {
  world_.planted[37].time_us = 60;
  world_.planted[2].check = TrialOutcome::kCrash;
  auto store = records();
  auto request = request_for(op_, world_, 40);
  request.records = &store;
  bool stop = false;
  request.cancelled = [&] { return stop; };
  request.progress = [&](const TuneProgress& progress) { stop = stop || progress.tried >= 10; };
  const auto first = run(request);
  EXPECT_TRUE(first.interrupted);
  EXPECT_FALSE(first.chosen);
  EXPECT_NE(first.resume.find("the same command goes on"), std::string::npos);
  EXPECT_TRUE(store.choices().value().empty());
  const auto kept = store.trials(first.context).value().size();
  EXPECT_GE(kept, 10u);
  const int checks = world_.checks;
  stop = false;
  request.progress = {};
  const auto second = run(request);
  EXPECT_FALSE(second.interrupted);
  EXPECT_EQ(chosen(second), 37);
  EXPECT_EQ(second.known, static_cast<std::int64_t>(kept) - 1);  // the baseline is measured afresh
  EXPECT_EQ(second.tried, 39);
  EXPECT_LT(world_.checks - checks, 40);
}

TEST_F(TunerTest, AKnownWinnerIsFetchedForTheFinal) {
  world_.planted[1].time_us = 60;
  auto store = records();
  auto request = request_for(op_, world_, 20);
  request.records = &store;
  bool stop = false;
  request.cancelled = [&] { return stop; };
  request.progress = [&](const TuneProgress& progress) { stop = stop || progress.tried >= 8; };
  EXPECT_TRUE(run(request).interrupted);
  stop = false;
  request.progress = {};
  EXPECT_EQ(chosen(run(request)), 1);
}

TEST_F(TunerTest, ProgressTellsRateAndBest) {
  world_.planted[3].time_us = 50;
  auto request = request_for(op_, world_);
  std::set<TuneProgress::Phase> phases;
  TuneProgress last;
  int trials = 0;
  request.progress = [&](const TuneProgress& progress) {
    phases.insert(progress.phase);
    trials += progress.trial != nullptr ? 1 : 0;
    last = progress;
  };
  (void)run(request);
  EXPECT_EQ(last.tried, 7);
  EXPECT_EQ(last.total, 7);
  EXPECT_GT(last.per_second, 0);
  EXPECT_NEAR(last.best_speedup, 2, 0.1);
  EXPECT_NE(last.best.find("A=3"), std::string::npos);
  EXPECT_EQ(trials, 8);
  for (auto phase : {TuneProgress::Phase::kBaseline, TuneProgress::Phase::kFinal,
                     TuneProgress::Phase::kConfirming}) {
    EXPECT_TRUE(phases.contains(phase)) << tune_phase_name(phase);
  }
}

TEST_F(TunerTest, SixteenThreadsOverFourWidthsTuneEachOnce) {
  world_.planted[3].time_us = 60;
  std::atomic<int> tuned{0}, found{0}, wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        World world;  // its own: the shared state is the records
        world.planted[3].time_us = 60;
        auto store = Records::open_in(dir_.path());
        auto request = request_for(op_, world);
        request.shape.dims["N"] = std::int64_t{128 << (t % 4)};
        request.records = &*store;
        StandIn stand_in(world, static_cast<unsigned>(t));
        request.evaluator = &stand_in;
        const auto report = tune(std::move(request));
        if (!report || chosen(*report) != 3)
          ++wrong;
        else
          ++(report->from_records ? found : tuned);
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tuned, 4);
  EXPECT_EQ(found, 12);
}

TEST_F(TunerTest, WorksWithoutRecordsAndSaysWhenTheyFail) {
  world_.planted[3].time_us = 60;
  EXPECT_EQ(chosen(run(request_for(op_, world_))), 3);
}

TEST_F(TunerTest, HalvingSpendsMoreRoundsOnTheBetterOnes) {
  for (int a = 1; a < 32; ++a) world_.planted[a].time_us = 100 + a;
  world_.planted[17].time_us = 80;
  auto request = request_for(op_, world_, 32);
  request.search = "halving";
  const auto report = run(request);
  EXPECT_EQ(chosen(report), 17);
  EXPECT_EQ(report.tried, 31);
}

}  // namespace
}  // namespace opforge
