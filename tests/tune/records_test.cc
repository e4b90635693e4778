#include "tune/records.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/tune/stand_in.hpp"
#include "tune/database.hpp"

namespace opforge {
namespace {

using test::variant_of;

TuneContext context(std::string target = "sm_90a", std::string layout = "c16,c16") {
  TuneContext one;
  one.op = "norm.rms_norm";
  one.dims = {{"M", std::int64_t{4096}}, {"N", std::int64_t{1024}}};
  one.layout = std::move(layout);
  one.dtypes = {{"T", DType::kBF16}, {"W", DType::kF32}};
  one.attributes = {{"eps", 1e-6}, {"zero_centered", std::int64_t{0}}};
  one.contract = Tier::kFast;
  one.target = std::move(target);
  one.device_model = "NVIDIA H200";
  one.driver_version = 13000;
  return one;
}

TrialRecord trial(std::int64_t a, TrialOutcome outcome = TrialOutcome::kMeasured,
                  std::int64_t at = 100) {
  TrialRecord one;
  one.variant = variant_of(a);
  one.code_key = sha256(std::to_string(a));
  one.baseline_key = sha256("base");
  one.toolchain = "nvrtc 13.0";
  one.resources = {32, 1024, 0, 4096};
  one.outcome = outcome;
  one.reason = outcome == TrialOutcome::kMeasured ? "" : "planted \"quotes\" and \xff bytes";
  one.time_us = summarise(std::vector<double>{1.5, 2.5, 3.5});
  one.ratio = summarise(std::vector<double>{0.5, 0.75});
  one.noise = 0.01;
  one.salt = ~std::uint64_t{0} - 5;
  one.finished_at = at;
  return one;
}

ChoiceRecord choice(TuneContext where, std::int64_t a, std::int64_t at = 100) {
  ChoiceRecord one;
  one.context = std::move(where);
  one.variant = variant_of(a);
  one.code_key = sha256(std::to_string(a));
  one.baseline_key = sha256("base");
  one.toolchain = "nvrtc 13.0";
  one.adopted = true;
  one.median_us = 1.25;
  one.baseline_us = 1.5;
  one.ratio_p80 = 0.84;
  one.margin = 0.01;
  one.tried = 40;
  one.space = 60;
  one.finished_at = at;
  return one;
}

class RecordsTest : public testing::Test {
 protected:
  TempDir dir_ = TempDir::create(std::filesystem::temp_directory_path(), "opforge-records").value();
  Path file_ = dir_.path() / "state" / "tune.db";
  Records open() { return Records::open(file_).value(); }
};

TEST_F(RecordsTest, KeepsEverythingOfATrial) {
  {
    auto records = open();
    ASSERT_TRUE(records.add(context(), trial(1)));
    ASSERT_TRUE(records.add(context(), trial(2, TrialOutcome::kCrash)));
  }
  const auto trials = open().trials(context()).value();
  ASSERT_EQ(trials.size(), 2u);
  const TrialRecord expected = trial(1);
  EXPECT_EQ(to_string(trials[0].variant), to_string(expected.variant));
  EXPECT_EQ(trials[0].code_key, expected.code_key);
  EXPECT_EQ(trials[0].toolchain, "nvrtc 13.0");
  EXPECT_EQ(trials[0].resources.registers, 32);
  EXPECT_EQ(trials[0].resources.code_bytes, 4096);
  EXPECT_EQ(trials[0].time_us.median, 2.5);
  EXPECT_EQ(trials[0].ratio.p80, expected.ratio.p80);
  EXPECT_EQ(trials[0].salt, expected.salt);
  EXPECT_EQ(trials[1].outcome, TrialOutcome::kCrash);
  EXPECT_EQ(trials[1].reason.rfind("planted \"quotes\"", 0), 0u);
}

TEST_F(RecordsTest, TheLatestTrialOfACodeCounts) {
  auto records = open();
  ASSERT_TRUE(records.add(context(), trial(1, TrialOutcome::kOutOfMemory, 100)));
  ASSERT_TRUE(records.add(context(), trial(1, TrialOutcome::kMeasured, 200)));
  const auto trials = records.trials(context()).value();
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0].outcome, TrialOutcome::kMeasured);
  EXPECT_EQ(records.list().value().at(0).trials, 2);
  EXPECT_EQ(records.list().value().at(0).failures, 1);
}

// Each of them is part of the key: a record made under another one is a miss.
TEST_F(RecordsTest, EveryPartOfTheContextIsPartOfTheKey) {
  auto records = open();
  ASSERT_TRUE(records.choose(choice(context(), 1)));
  const auto miss = [&](auto change) {
    TuneContext other = context();
    change(other);
    const auto found = records.choice(other);
    return found.has_value() && !found->has_value();
  };
  EXPECT_TRUE(records.choice(context()).value().has_value());
  EXPECT_TRUE(miss([](TuneContext& c) { c.layout = "r16,c16"; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.dims["M"] = std::int64_t{4095}; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.dtypes["W"] = DType::kBF16; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.attributes["eps"] = 1e-5; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.contract = Tier::kDeterministic; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.target = "sm_90"; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.device_model = "NVIDIA H100"; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.driver_version = 12080; }));
  EXPECT_TRUE(miss([](TuneContext& c) { c.op = "norm.layer_norm"; }));
}

TEST_F(RecordsTest, MergedTargetsStayApartAndClearTakesOneOnly) {
  const Path other = dir_.path() / "other.db";
  {
    auto there = Records::open(other).value();
    ASSERT_TRUE(there.choose(choice(context("sm_80"), 8)));
    ASSERT_TRUE(there.add(context("sm_80"), trial(8)));
  }
  const auto before = read_file(other).value();
  auto records = open();
  ASSERT_TRUE(records.choose(choice(context("sm_90a"), 9)));
  EXPECT_EQ(records.merge(other).value(), 2u);
  EXPECT_EQ(records.merge(other).value(), 0u);  // again: nothing new
  EXPECT_EQ(read_file(other).value(), before);
  EXPECT_EQ((*records.choice(context("sm_80")).value()).code_key, sha256("8"));
  EXPECT_EQ((*records.choice(context("sm_90a")).value()).code_key, sha256("9"));
  EXPECT_EQ(records.clear({.target = "sm_80"}).value(), 1u);
  EXPECT_FALSE(records.choice(context("sm_80")).value().has_value());
  EXPECT_TRUE(records.trials(context("sm_80")).value().empty());
  EXPECT_TRUE(records.choice(context("sm_90a")).value().has_value());
  EXPECT_EQ(records.choices().value().size(), 1u);
  EXPECT_EQ(records.clear().value(), 1u);
  EXPECT_TRUE(records.list().value().empty());
}

TEST_F(RecordsTest, OfTwoChoicesTheLaterStaysWhateverTheOrderOfMerges) {
  auto early = Records::open({}).value(), late = Records::open({}).value();
  ASSERT_TRUE(early.choose(choice(context(), 1, 100)));
  ASSERT_TRUE(late.choose(choice(context(), 2, 200)));
  const auto early_text = early.export_json().value(), late_text = late.export_json().value();
  EXPECT_EQ(early.import_json(late_text).value(), 1u);
  EXPECT_EQ(late.import_json(early_text).value(), 0u);
  EXPECT_EQ((*early.choice(context()).value()).code_key, sha256("2"));
  EXPECT_EQ((*late.choice(context()).value()).code_key, sha256("2"));
}

TEST_F(RecordsTest, ExportRoundTripsAndBadTextImportsNothing) {
  auto records = open();
  ASSERT_TRUE(records.add(context(), trial(1)));
  ASSERT_TRUE(records.add(context(), trial(2, TrialOutcome::kHang)));
  ASSERT_TRUE(records.choose(choice(context(), 1)));
  const auto text = records.export_json().value();
  auto copy = Records::open({}).value();
  EXPECT_EQ(copy.import_json(text).value(), 3u);
  EXPECT_EQ(copy.export_json().value(), text);
  EXPECT_EQ(copy.export_json({.op = "no.such"}).value().find("trial"), std::string::npos);

  auto empty = Records::open({}).value();
  for (const std::string& bad :
       {std::string(""), std::string("hello"), std::string("{\"format\":\"other\"}"),
        text.substr(0, text.size() / 2), text + "{}\n", text + "[1]\n"}) {
    const auto imported = empty.import_json(bad);
    ASSERT_FALSE(imported) << bad;
    EXPECT_EQ(imported.error().code, Code::kCorrupt);
    EXPECT_TRUE(empty.list().value().empty());
  }
  EXPECT_NE(empty.import_json(text + "{}\n").error().message.find("line 5"), std::string::npos);
}

TEST_F(RecordsTest, AnOlderSchemaIsMigratedWithItsRecords) {
  ASSERT_TRUE(make_dirs(file_.parent_path()));
  {
    const auto old = Database::open(file_, false).value();
    ASSERT_TRUE(old.migrate(1));
    ASSERT_TRUE(
        old.execute("INSERT INTO contexts VALUES(1, 'd', 'o', '{\"M\":1}', 'c16', '{}', '{}', "
                    "'FAST', 't', 'm', 0)"));
    EXPECT_FALSE(old.prepare("SELECT * FROM choices"));
  }
  auto records = open();
  const auto listed = records.list().value();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].context.op, "o");
  EXPECT_TRUE(records.choose(choice(context(), 1)));
}

TEST_F(RecordsTest, ANewerSchemaIsRefusedNamingBoth) {
  { auto records = open(); }
  {
    const auto db = Database::open(file_, false).value();
    ASSERT_TRUE(db.execute("PRAGMA user_version = 99"));
  }
  const auto records = Records::open(file_);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code, Code::kIncompatible);
  EXPECT_NE(records.error().message.find("99"), std::string::npos);
  EXPECT_NE(records.error().message.find("up to 2"), std::string::npos);
  EXPECT_NE(records.error().message.find(file_.string()), std::string::npos);
}

TEST_F(RecordsTest, AFileThatIsNoDatabaseIsRefusedAndKept) {
  ASSERT_TRUE(make_dirs(file_.parent_path()));
  const std::string text(5000, 'x');
  ASSERT_TRUE(write_file_atomic(file_, text));
  const auto records = Records::open(file_);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code, Code::kCorrupt);
  EXPECT_NE(records.error().message.find(file_.string()), std::string::npos);
  EXPECT_EQ(read_file(file_).value(), text);
  EXPECT_FALSE(Records::open(dir_.path()));
  EXPECT_FALSE(Records::open({}).value().merge(dir_.path() / "absent.db"));
}

TEST_F(RecordsTest, TheFolderIsPrivateAndAnEmptyOneMeansMemory) {
  auto records = Records::open_in(dir_.path() / "fresh").value();
  struct stat info {};
  ASSERT_EQ(stat((dir_.path() / "fresh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(records.file(), dir_.path() / "fresh/tune.db");
  EXPECT_TRUE(Records::open_in({}).value().file().empty());
}

TEST_F(RecordsTest, EightProcessesAndThreadsWriteAtOnce) {
  { auto first = open(); }
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto records = Records::open(file_);
      if (!records) _exit(1);
      std::vector<std::jthread> threads;
      std::atomic<int> failed{0};
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < 5; ++i) {
            if (!records->add(context(), trial(1000 * p + 100 * t + i))) ++failed;
          }
        });
      }
      threads.clear();
      _exit(failed == 0 ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open().trials(context()).value().size(), 80u);
}

TEST(TrialOutcome, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(TrialOutcome::kOther); ++i) {
    const auto outcome = static_cast<TrialOutcome>(i);
    EXPECT_EQ(parse_trial_outcome(trial_outcome_name(outcome)).value(), outcome);
  }
  EXPECT_FALSE(parse_trial_outcome("exploded"));
  EXPECT_TRUE(is_final(TrialOutcome::kWrongResult));
  EXPECT_FALSE(is_final(TrialOutcome::kOutOfMemory));
}

TEST(TableEntryOf, CarriesWhatDispatchNeeds) {
  const auto entry = table_entry(choice(context(), 3));
  EXPECT_EQ(entry.code_key, sha256("3"));
  EXPECT_EQ(entry.dims, context().dims);
  EXPECT_EQ(entry.attributes, context().attributes);
  EXPECT_EQ(entry.layout, "c16,c16");
  EXPECT_EQ(entry.target, "sm_90a");
  EXPECT_EQ(entry.device_model, "NVIDIA H200");
  EXPECT_EQ(entry.median_us, 1.25);
  EXPECT_EQ(entry.baseline_us, 1.5);
}

}  // namespace
}  // namespace opforge
