// Every operator x backend x tier x dtype of the catalogue through the generic suites. Nothing here
// names an operator.
#include <gtest/gtest.h>

#include "conformance/cells.hpp"
#include "verify/bitwise.hpp"
#include "verify/proof.hpp"

namespace opforge::conformance {
namespace {

std::string summary(const SuiteReport& report) {
  std::string out = report.variant + ": " + std::to_string(report.passed) + " passed, " +
                    std::to_string(report.failed) + " failed, " + std::to_string(report.refused) +
                    " refused; worst share of the bound " + std::to_string(report.worst_share) +
                    " (" + report.worst_trial + ")";
  int shown = 0;
  for (const TrialResult& result : report.results) {
    if (result.outcome == Outcome::kFailed && shown++ < 8)
      out += "\n  " + result.suite + " " + result.trial + ": " + result.reason;
  }
  return out;
}

class Conformance : public testing::TestWithParam<Cell> {};

TEST_P(Conformance, IsWhatItPromises) {
  const Cell& cell = GetParam();
  const Operator& op = *catalogue().find(cell.op);
  bool stand_in = false;
  for (const KernelDecl* kernel : kernels_of(cell, &stand_in)) {
    DeviceInfo device;
    Target target;
    std::string why;
    const bool runs = find_device(op, *kernel, cell.dtypes, device, target, why);
    const std::vector<Variant> variants = variants_of(op, *kernel, cell.dtypes, target);
    ASSERT_FALSE(variants.empty()) << kernel->id << " has no variant for " << target.name;
    for (const Variant& variant : variants) {
      const auto code = obtain(op, *kernel, variant, store(), nullptr);
      if (!code && code.error().code == Code::kUnavailable) GTEST_SKIP() << code.error().message;
      ASSERT_TRUE(code) << to_string(variant) << ": " << code.error().message;
      if (!runs) continue;
      SuiteOptions options;
      options.tier = cell.tier;
      // A stricter kernel that stands in has been through everything in its own cell.
      options.only_extra = stand_in;
      for (const Case& each : op.cases) {
        if (stand_in && (each.uses & unsigned(CaseUse::kTest)) != 0)
          options.extra_dims.push_back(each.dims);
      }
      const auto report = run_suites(op, *code, device, options);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_TRUE(report->ok()) << summary(*report);
    }
    if (!runs)
      GTEST_SKIP() << kernel->id << " compiles for " << target.name << "; not run: " << why;
  }
}

INSTANTIATE_TEST_SUITE_P(, Conformance, testing::ValuesIn(all_cells()),
                         [](const testing::TestParamInfo<Cell>& info) {
                           return info.param.name();
                         });

// All variants of a DETERMINISTIC kernel whose bit-changing tunables agree give the same bits:
// layout, streaming, prefetching and alignment are choices that a tuner may make.
class BitClass : public testing::TestWithParam<Cell> {};

std::string class_of(const KernelDecl& kernel, const Variant& variant) {
  std::string out;
  for (const auto& [name, value] : variant.baked) out += name + "=" + to_string(value) + " ";
  for (const Tunable& tunable : kernel.tunables) {
    if (tunable.changes_bits)
      out += tunable.name + "=" + to_string(variant.values.at(tunable.name)) + " ";
  }
  for (const auto& [name, value] : variant.baked) out += name + "=" + to_string(value) + " ";
  return out;
}

TEST_P(BitClass, EveryVariantGivesTheSameBits) {
  const Cell& cell = GetParam();
  const Operator& op = *catalogue().find(cell.op);
  for (const KernelDecl* kernel : kernels_of(cell)) {
    DeviceInfo device;
    Target target;
    std::string why;
    if (!find_device(op, *kernel, cell.dtypes, device, target, why))
      GTEST_SKIP() << kernel->id << " was not run: " << why;
    std::map<std::string, std::pair<std::string, std::vector<std::string>>>
        first;  // class and trial -> variant, bits
    for (const Variant& variant : variants_of(op, *kernel, cell.dtypes, target)) {
      const auto code = obtain(op, *kernel, variant, store(), nullptr);
      ASSERT_TRUE(code) << code.error().message;
      auto subject = LoadedSubject::load(op.signature, *code, device, false);
      ASSERT_TRUE(subject) << subject.error().message;
      SuiteOptions options;
      options.tier = Tier::kDeterministic;
      for (SuiteTrial& each : trials_for(op, code->artifact, device, options)) {
        if (each.suite != "bitwise") continue;
        each.trial.seed = 20;  // the same inputs for all variants
        auto memory = TrialMemory::make(op, each.trial, subject->api(), device.device);
        ASSERT_TRUE(memory) << memory.error().message;
        const auto bits = output_bits(*subject, *memory);
        if (!bits && bits.error().code == Code::kUnavailable) continue;
        ASSERT_TRUE(bits) << bits.error().message;
        const auto [at, added] = first.try_emplace(class_of(*kernel, variant) + each.trial.name,
                                                   to_string(variant), *bits);
        EXPECT_TRUE(added || at->second.second == *bits)
            << to_string(variant) << " and " << at->second.first << " differ in their bits at "
            << each.trial.name;
      }
    }
  }
}

std::vector<Cell> deterministic_cells() {
  std::vector<Cell> out;
  for (Cell& cell : all_cells()) {
    if (cell.tier == Tier::kDeterministic) out.push_back(std::move(cell));
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(, BitClass, testing::ValuesIn(deterministic_cells()),
                         [](const testing::TestParamInfo<Cell>& info) {
                           return info.param.name();
                         });

}  // namespace
}  // namespace opforge::conformance
