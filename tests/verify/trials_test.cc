// What the generic suites try, from a declaration alone.
#include <gtest/gtest.h>

#include <set>

#include "verify/proof.hpp"
#include "verify/suite.hpp"

namespace opforge {
namespace {

Operator row_op() {
  Operator op;
  op.signature.name = "test.rows";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "w", .dims = {"N"}, .dtype = "W", .optional = true},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.attributes = {
      {.name = "eps", .type = AttrType::kFloat, .default_value = 1e-5, .min = 0.0, .max = 1.0},
      {.name = "mode",
       .type = AttrType::kText,
       .default_value = std::string("a"),
       .choices = {"a", "b"}},
      {.name = "zero", .type = AttrType::kBool, .default_value = std::int64_t{0}, .baked = true}};
  op.signature.dtypes = {{{"T", DType::kBF16}, {"W", DType::kF32}}};
  op.signature.reduced_dims = {"N"};
  op.cases = {{"declared", {{"M", std::int64_t{17}}, {"N", std::int64_t{768}}}, {}, 7}};
  return op;
}

Artifact artifact_of(const Operator& op, Tier tier) {
  Artifact out;
  out.variant.op = op.signature.name;
  out.variant.kernel = "rows.kernel";
  out.variant.tier = tier;
  out.variant.dtypes = op.signature.dtypes.front();
  out.variant.baked = {{"zero", std::int64_t{1}}};
  return out;
}

std::vector<SuiteTrial> trials(Tier tier, Budget budget = Budget::kQuick, DeviceInfo device = {}) {
  const Operator op = row_op();
  SuiteOptions options;
  options.tier = tier;
  options.budget = budget;
  return trials_for(op, artifact_of(op, tier), device, options);
}

std::int64_t extent(const Trial& trial, const char* symbol) {
  return std::get<std::int64_t>(trial.dims.at(symbol));
}

TEST(Trials, NamesAreUnique) {
  std::set<std::string> names;
  for (const SuiteTrial& each : trials(Tier::kDeterministic, Budget::kFull)) {
    EXPECT_TRUE(names.insert(each.suite + each.trial.name).second)
        << each.suite << " " << each.trial.name;
  }
}

TEST(Trials, CoverTheBoundariesOfRowsAndWidths) {
  std::set<std::int64_t> rows, widths;
  for (const SuiteTrial& each : trials(Tier::kFast)) {
    if (each.suite != "boundaries") continue;
    rows.insert(extent(each.trial, "M"));
    widths.insert(extent(each.trial, "N"));
  }
  for (const std::int64_t n : {0, 1, 65535, 65536, 65537}) EXPECT_TRUE(rows.contains(n)) << n;
  for (int k = 1; k <= 13; ++k) {
    for (const std::int64_t n : {(1 << k) - 1, 1 << k, (1 << k) + 1})
      EXPECT_TRUE(widths.contains(n)) << n;
  }
  for (const std::int64_t n : {0, 65537, 151936}) EXPECT_TRUE(widths.contains(n)) << n;
}

TEST(Trials, CoverEveryLayoutAndEveryKindOfValue) {
  std::set<int> layouts, data;
  for (const SuiteTrial& each : trials(Tier::kFast)) {
    layouts.insert(static_cast<int>(each.trial.layout));
    data.insert(static_cast<int>(each.trial.data));
  }
  EXPECT_EQ(layouts.size(), static_cast<std::size_t>(Layout::kLeadingGapped) + 1);
  EXPECT_EQ(data.size(), static_cast<std::size_t>(Data::kZeros) + 1);
}

TEST(Trials, CoverAttributesOptionalsAliasesAndCases) {
  std::set<std::string> seen;
  for (const SuiteTrial& each : trials(Tier::kFast)) {
    const Trial& trial = each.trial;
    if (trial.attributes.contains("eps") && trial.attributes.at("eps") == Value(0.0))
      seen.insert("eps=0");
    if (trial.attributes.contains("eps") && trial.attributes.at("eps") == Value(1.0))
      seen.insert("eps=1");
    if (each.suite == "attributes" && trial.attributes.contains("mode"))
      seen.insert("mode=" + to_string(trial.attributes.at("mode")));
    if (trial.absent.contains("w")) seen.insert("no w");
    if (trial.alias == "y" && trial.alias_input == "x") seen.insert("in place");
    if (each.suite == "cases" && extent(trial, "M") == 17) seen.insert("case");
    // A baked attribute is what the artifact was built with, in every trial.
    EXPECT_EQ(trial.attributes.at("zero"), Value(std::int64_t{1})) << trial.name;
  }
  for (const char* what : {"eps=0", "eps=1", "mode=a", "mode=b", "no w", "in place", "case"}) {
    EXPECT_TRUE(seen.contains(what)) << what;
  }
}

TEST(Trials, OnlyDeterministicIsTriedForBits) {
  const auto count = [](const std::vector<SuiteTrial>& all) {
    return std::count_if(all.begin(), all.end(),
                         [](const SuiteTrial& each) { return each.suite == "bitwise"; });
  };
  EXPECT_GT(count(trials(Tier::kDeterministic)), 0);
  EXPECT_EQ(count(trials(Tier::kHighPrecision)), 0);
}

TEST(Trials, MoreThanTwoToThe31ElementsWhereADeviceHasTheMemory) {
  DeviceInfo gpu;
  gpu.device = {DeviceKind::kCuda, 0};
  gpu.memory_bytes = std::int64_t{140} << 30;
  const auto huge = [&](Budget budget) {
    std::int64_t most = 0;
    for (const SuiteTrial& each : trials(Tier::kFast, budget, gpu)) {
      most = std::max(most, extent(each.trial, "M") * extent(each.trial, "N"));
    }
    return most;
  };
  EXPECT_GT(huge(Budget::kFull), std::int64_t{1} << 31);
  EXPECT_LT(huge(Budget::kQuick), std::int64_t{1} << 31);
  gpu.memory_bytes = std::int64_t{4} << 30;
  EXPECT_LT(huge(Budget::kFull), std::int64_t{1} << 31);
}

TEST(Trials, SeedsFollowFromTheCodeAndTheSalt) {
  const Digest a = sha256("a"), b = sha256("b");
  EXPECT_EQ(trial_seed(a, "t", 0), trial_seed(a, "t", 0));
  EXPECT_NE(trial_seed(a, "t", 0), trial_seed(b, "t", 0));
  EXPECT_NE(trial_seed(a, "t", 0), trial_seed(a, "u", 0));
  EXPECT_NE(trial_seed(a, "t", 0), trial_seed(a, "t", 1));
}

// Gates: what a launch record of DETERMINISTIC code may not say.
Status gates(void (*change)(Artifact&)) {
  const Operator op = row_op();
  Artifact artifact = artifact_of(op, Tier::kDeterministic);
  LaunchStep step;
  step.entry = "rows";
  step.bindings = {
      {"x", ParamType::kPtr, "x"}, {"rows", ParamType::kI64, "M"}, {"width", ParamType::kI64, "N"}};
  step.grid[0] = "ceil_div(M, ROWS)";
  step.block[0] = "min(1024, next_pow2(N))";
  artifact.launch.steps = {step};
  artifact.kind = CodeKind::kCubin;
  change(artifact);
  return deterministic_gates(op, artifact, "");
}

TEST(Gates, AnHonestRecordPasses) {
  const Status status = gates([](Artifact&) {});
  EXPECT_TRUE(status) << status.error().message;
}

TEST(Gates, DevicePropertiesAndBatchDimsAreRefused) {
  EXPECT_FALSE(gates([](Artifact& a) { a.launch.steps[0].grid[0] = "min(M, device.sm_count)"; }));
  EXPECT_FALSE(gates([](Artifact& a) { a.launch.steps[0].block[0] = "min(1024, M)"; }));
  EXPECT_FALSE(gates([](Artifact& a) { a.launch.steps[0].shared_bytes = "4 * M"; }));
  EXPECT_FALSE(gates([](Artifact& a) {
    a.launch.steps[0].bindings.push_back({"parts", ParamType::kI64, "ceil_div(M, 128)"});
  }));
  EXPECT_FALSE(gates([](Artifact& a) {
    a.launch.steps[0].bindings.push_back({"parts", ParamType::kI32, "M > 64 ? 2 : 1"});
  }));
  EXPECT_FALSE(gates([](Artifact& a) {
    a.defaults.push_back({"SPLIT", "M", {1, 2}, false, true});
  }));
  EXPECT_TRUE(gates([](Artifact& a) {
    a.defaults.push_back({"ROWS", "M", {1, 2}, false, false});
  }));
  EXPECT_TRUE(gates([](Artifact& a) {
    a.launch.steps[0].bindings.push_back({"count", ParamType::kI64, "M*N"});
  }));
}

TEST(Gates, AtomicsInPtxAreRefused) {
  const Operator op = row_op();
  Artifact artifact = artifact_of(op, Tier::kDeterministic);
  artifact.kind = CodeKind::kPtx;
  EXPECT_FALSE(deterministic_gates(op, artifact, "red.global.add.f32 [%rd1], %f1;"));
  EXPECT_TRUE(deterministic_gates(op, artifact, "add.f32 %f1, %f2, %f3;"));
}

TEST(Reports, AnEmptyReportIsNotOk) {
  SuiteReport report;
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.first_failure(), "");
  report.results.push_back({"boundaries", "M=1", Outcome::kRefused, "too narrow"});
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.first_failure().find("too narrow"), std::string::npos);
  report.results.push_back({"boundaries", "M=2", Outcome::kPassed, ""});
  EXPECT_TRUE(report.ok());
}

}  // namespace
}  // namespace opforge
