#include "operator/languages.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "tests/operator/sample_operator.hpp"

namespace opforge {
namespace {

using testing_samples::sample_kernel;
using testing_samples::sample_operator;

constexpr LanguageRow kTable[] = {{"triton", kTileLevel, DeviceKind::kCuda},
                                  {"tilelang", kTileLevel, DeviceKind::kCuda},
                                  {"opencl", kTileLevel, DeviceKind::kOpenCl},
                                  {"cuda", kThreadLevel, DeviceKind::kCuda},
                                  {"cpu", kThreadLevel, DeviceKind::kCpu}};

Operator with(std::vector<std::string> backends) {
  Operator op = sample_operator();
  op.kernels.clear();
  for (const std::string& backend : backends)
    op.kernels.push_back(sample_kernel("k." + backend, backend, Tier::kFast));
  return op;
}

std::string message(const Operator& op) {
  const Status status = validate_reasons(op, kTable);
  return status ? "" : status.error().message;
}

TEST(Languages, OrderOfLevels) {
  const auto level = [](const char* backend) {
    return language_level(sample_kernel("k", backend, Tier::kFast), "", kTable);
  };
  for (const char* high : {"triton", "tilelang", "opencl"}) {
    for (const char* low : {"cuda", "cpu"}) {
      EXPECT_GT(*level(high), *level(low));
      EXPECT_GT(*level(low), kAssemblyLevel);
    }
  }
  EXPECT_FALSE(level("reference"));
  EXPECT_FALSE(level("cublas"));
}

TEST(Languages, BackendsSayTheirOwnLevel) {
  const auto level = [](const char* backend) {
    return language_level(sample_kernel("k", backend, Tier::kFast), "");
  };
  EXPECT_EQ(level("cuda"), kThreadLevel);
  EXPECT_EQ(level("cpu"), kThreadLevel);
  EXPECT_FALSE(level("reference"));
}

TEST(Languages, ALowerKernelBesideAHigherOneNeedsAReason) {
  EXPECT_EQ(message(with({"cuda", "cpu"})), "");
  Operator op = with({"cuda", "triton"});
  EXPECT_NE(message(op).find("kernel k.cuda: it is in a lower-level language than k.triton "
                             "(triton) for the same device and "
                             "states no reason"),
            std::string::npos)
      << message(op);
  op.kernels[0].reason = {ReasonKind::kMissingPrimitive, "warp shuffle", ""};
  EXPECT_EQ(message(op), "");
  op.kernels[0].reason = {ReasonKind::kPerformanceGap, "12 % slower", "softmax_h200.json"};
  EXPECT_EQ(message(op), "");
  // Another device is no comparison, whichever stands first.
  EXPECT_EQ(message(with({"triton", "cpu"})), "");
  EXPECT_NE(message(with({"tilelang", "cuda"})), "");
  op = with({"opencl", "cpu"});
  EXPECT_EQ(message(op), "");
  op.kernels[0].requires_any = {{DeviceKind::kCpu, 0, 0}};
  EXPECT_NE(message(op).find("kernel k.cpu: it is in a lower-level language than k.opencl"),
            std::string::npos);
}

TEST(Languages, ReasonsThatAreNone) {
  const auto refused = [](LowLevelReason reason, const char* part) {
    Operator op = with({"cuda"});
    op.kernels[0].reason = std::move(reason);
    EXPECT_NE(message(op).find(part), std::string::npos) << part << ": " << message(op);
    EXPECT_NE(message(op).find("kernel k.cuda"), std::string::npos);
  };
  refused({ReasonKind::kNone, "the call shape differs", ""},
          "'the call shape differs' is no reason for a lower-level language");
  refused({ReasonKind::kMissingPrimitive, "The Call Shape differs", ""},
          "is no reason for a lower-level language");
  refused({ReasonKind::kNone, "it was there already", ""},
          "the reason 'it was there already' has no kind");
  refused({ReasonKind::kMissingPrimitive, "", ""}, "must name the missing primitive");
  refused({ReasonKind::kPerformanceGap, "slow", ""}, "needs the file under bench/results");
  refused({ReasonKind::kPerformanceGap, "", "a.json"}, "must say what the performance gap is");
  refused({ReasonKind::kPerformanceGap, "slow", "/tmp/a.json"},
          "must be a path under bench/results");
  refused({ReasonKind::kPerformanceGap, "slow", "../a.json"}, "must be a path under bench/results");
}

TEST(Languages, InlineAssemblyIsTheLowest) {
  const auto folder = TempDir::create(std::filesystem::temp_directory_path());
  ASSERT_TRUE(folder);
  const auto level = [&](std::string_view source) {
    EXPECT_TRUE(write_file_atomic(folder->path() / "cpu.cc", source));
    return *language_level(sample_kernel("k", "cuda", Tier::kFast), folder->path().string(),
                           kTable);
  };
  EXPECT_EQ(level("void f() { asm volatile(\"nop;\"); }"), kAssemblyLevel);
  EXPECT_EQ(level("void f() { asm (\"nop;\"); }"), kAssemblyLevel);
  EXPECT_EQ(level("void f() { __asm__ __volatile__(\"nop\"); }"), kAssemblyLevel);
  EXPECT_GT(level("// no asm(\"\") here\nint asmx(int); int plasm(int);"), kAssemblyLevel);
  EXPECT_GT(level("int f() { return 1; }"), kAssemblyLevel);
}

TEST(Languages, ShareOfLowerKernels) {
  Operator op = with({"triton", "cuda", "cpu", "reference"});
  op.kernels[1].reason = {ReasonKind::kMissingPrimitive, "warp shuffle", ""};
  op.kernels[2].reason = {ReasonKind::kPerformanceGap, "gap", "a.json"};
  LowLevelShare share = low_level_share(op, kTable);
  EXPECT_EQ(share.kernels, 3u);
  EXPECT_EQ(share.lower, 2u);
  EXPECT_EQ(share.missing_primitive, 1u);
  EXPECT_EQ(share.performance_gap, 1u);
  EXPECT_DOUBLE_EQ(share.share(), 2.0 / 3.0);
  share += low_level_share(with({"cpu"}), kTable);
  EXPECT_EQ(share.kernels, 4u);
  EXPECT_EQ(LowLevelShare{}.share(), 0);
}

}  // namespace
}  // namespace opforge
