// The build job: what it makes, what it reports, and that the same inputs give the same bytes.
#include "forge/build.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

using test::Folder;
using test::put;
using test::Setting;

class Build : public testing::Test {
 protected:
  Build() {
    develop();
    add_operator_in("op");
  }

  void add_operator_in(const std::string& name, std::string_view cpu = test::kScaleCpu) {
    catalogue_ = Catalogue{};
    const Status added = add_operator(catalogue_, test::scale_rows(folder_ / name, cpu));
    ASSERT_TRUE(added) << added.error().message;
  }
  BuildRequest request() {
    BuildRequest request;
    request.operators = catalogue_.all();
    request.targets = {"x86-64-v2"};
    request.from_cases = true;
    request.attest = false;
    request.jobs = 2;
    request.key = &key_;
    request.output = folder_ / "out.ofpack";
    return request;
  }
  Result<BuildReport> run(BuildRequest asked, const std::string& store = "store") {
    auto opened = Store::open(folder_ / store);
    if (!opened) return fail(opened.error());
    asked.store = &*opened;
    return build_pack(asked);
  }
  std::string pack() const { return *read_file(folder_ / "out.ofpack"); }

  Folder folder_;
  Catalogue catalogue_;
  SigningKey key_ = SigningKey::generate();
};

// f32 and bf16, negate 0 and 1, and the reference.
constexpr std::size_t kVariants = 2 * 2 + 1;

TEST_F(Build, ASecondRunCompilesNothingAndTheBytesAreTheSameFromAnywhere) {
  const auto first = run(request());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->ok(true));
  EXPECT_EQ(first->compiled, kVariants);
  const std::string bytes = pack();

  // In a process of its own, so that nothing is remembered but the store.
  const pid_t child = fork();
  if (child == 0) {
    const auto again = run(request());
    _exit(again && again->compiled == 0 && again->loaded == kVariants ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pack() == bytes) << "after a warm build";

  const auto emptied = run(request(), "other-store");
  ASSERT_TRUE(emptied);
  EXPECT_EQ(emptied->compiled, kVariants);
  EXPECT_TRUE(pack() == bytes) << "from an emptied store";

  add_operator_in("elsewhere/deeper");
  const auto moved = run(request(), "third-store");
  ASSERT_TRUE(moved);
  EXPECT_TRUE(pack() == bytes) << "from another folder";
}

TEST_F(Build, AMissingToolchainIsSkippedAndUnderStrictAFailure) {
  const Setting setting("OPFORGE_CXX", "no-such-compiler");
  const auto report = run(request());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->skipped, kVariants);
  EXPECT_NE(report->rows.at(0).reason.find("no-such-compiler"), std::string::npos);
  EXPECT_FALSE(report->ok(true));
}

TEST_F(Build, AKernelThatDoesNotCompileIsNamedAndNoPackIsWritten) {
  std::string text(test::kScaleCpu);
  text.insert(text.find("  for (int64_t row"),
              "  static_assert(!V::negate, \"negate is broken\");\n");
  put(folder_ / "op/cpu.cc", text);
  const auto report = run(request());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->failed, 2u);
  EXPECT_FALSE(report->ok(false));
  EXPECT_FALSE(report->written);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.ofpack"));
  for (const BuildRow& row : report->rows) {
    if (row.outcome != BuildOutcome::kFailed) continue;
    EXPECT_NE(row.reason.find("negate is broken"), std::string::npos) << row.reason;
    EXPECT_NE(row.variant.find("negate=1"), std::string::npos) << row.variant;
  }
}

TEST_F(Build, WhatThisCpuCanRunIsAttestedOnceAndTheBytesStayTheSame) {
  BuildRequest asked = request();
  asked.attest = true;
  asked.dtypes = {DType::kF32};
  const auto first = run(asked);
  ASSERT_TRUE(first) << first.error().message;
  for (const BuildRow& row : first->rows)
    EXPECT_EQ(row.reason.find("FAILED"), std::string::npos) << row.reason;
  EXPECT_EQ(first->attested, 2u);
  const std::string bytes = pack();
  const auto second = run(asked);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->attested, 2u);
  EXPECT_TRUE(pack() == bytes) << "with the kept attestations";
  const auto third = run(asked, "other-store");
  ASSERT_TRUE(third);
  EXPECT_TRUE(pack() == bytes) << "proved again";
}

TEST_F(Build, AWrongKernelFailsItsProof) {
  put(folder_ / "op/helper.hpp", "#pragma once\ninline constexpr float kHelperFactor = 1.001f;\n");
  BuildRequest asked = request();
  asked.attest = true;
  asked.dtypes = {DType::kF32};
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->proofs_failed, 2u);
  EXPECT_FALSE(report->ok(false));
}

TEST_F(Build, CodeForOtherCpusIsBuiltAndNotAttested) {
  if (detect_cpu().arch >= 4) GTEST_SKIP() << "this CPU runs every target";
  BuildRequest asked = request();
  asked.attest = true;
  asked.targets = {"x86-64-v4"};
  asked.dtypes = {DType::kF32};
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->attested, 0u);
  EXPECT_TRUE(report->ok(true));
  EXPECT_NE(report->rows.at(0).reason.find("not attested here"), std::string::npos);
}

TEST_F(Build, BadRequestsAreNamed) {
  BuildRequest asked = request();
  asked.targets = {"x86-64-v9"};
  auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("x86-64-v9"), std::string::npos);
  asked = request();
  asked.most_variants = 3;
  report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("demo.scale_rows"), std::string::npos);
  asked = request();
  asked.from_cases = false;
  asked.shapes = {{{"K", std::int64_t{4}}}};
  report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("nothing to build"), std::string::npos);
}

TEST_F(Build, AnInterruptedBuildSaysSoAndGoesOnLater) {
  BuildRequest asked = request();
  int seen = 0;
  asked.jobs = 1;
  asked.progress = [&](const std::string&, std::size_t, std::size_t) { seen++; };
  asked.cancelled = [&] { return seen >= 2; };
  const auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.ofpack"));
  const auto rest = run(request());
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->loaded, 2u);
  EXPECT_EQ(rest->compiled, kVariants - 2);
}

}  // namespace
}  // namespace opforge
