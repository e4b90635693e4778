#include "target/target.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/files.hpp"

namespace opforge {
namespace {

DeviceInfo gpu(int arch) { return {{DeviceKind::kCuda, 0}, "Test GPU", arch}; }
DeviceInfo cpu(int level) { return {{DeviceKind::kCpu, 0}, "Test CPU", level}; }

Target target(std::string_view name) { return parse_target(name).value(); }

TEST(Target, ParsesTheForms) {
  EXPECT_EQ(target("sm_90a").arch, 90);
  EXPECT_TRUE(target("sm_90a").arch_specific);
  EXPECT_FALSE(target("sm_80").arch_specific);
  EXPECT_EQ(target("sm_120").arch, 120);
  EXPECT_TRUE(target("compute_80").ptx);
  EXPECT_EQ(target("compute_80").device, DeviceKind::kCuda);
  EXPECT_EQ(target("gfx942").arch, 0x942);
  EXPECT_EQ(target("gfx90a").arch, 0x90a);
  EXPECT_FALSE(target("gfx90a").arch_specific);
  EXPECT_EQ(target("gfx1100").device, DeviceKind::kHip);
  EXPECT_EQ(target("x86-64").arch, 1);
  EXPECT_EQ(target("x86-64-v3").arch, 3);
  EXPECT_EQ(target("x86-64-v3").device, DeviceKind::kCpu);
}

TEST(Target, RefusesOtherTextListingTheForms) {
  for (const char* name :
       {"", "sm_", "sm_9", "sm_90b", "sm_090", "sm_9000", "compute_", "x86-64-v1", "x86-64-v5",
        "x86-64-v33", "x86-64-v", "avx2", "SM_90", "sm_-90", "sm_90 ", "gfx", "gfx94", "gfx94A",
        "gfx942x", "gfx042", "gfx11000", "gfx-42"}) {
    const auto parsed = parse_target(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("compute_"), std::string::npos);
  }
}

TEST(Target, CodeObjectsRunOnExactlyTheirOwn) {
  DeviceInfo device;
  device.device.kind = DeviceKind::kHip;
  device.arch = 0x942;
  EXPECT_TRUE(runs_on(target("gfx942"), device, false));
  const Support other = runs_on(target("gfx90a"), device, false);
  EXPECT_FALSE(other);
  EXPECT_NE(other.reason().find("gfx942"), std::string::npos);
  EXPECT_FALSE(runs_on(target("sm_90a"), device, false));
  ASSERT_EQ(native_targets(device).size(), 1u);
  EXPECT_EQ(native_targets(device)[0].name, "gfx942");
}

struct Case {
  const char* target;
  DeviceInfo device;
  bool allow_ptx;
  bool runs;
};

TEST(Target, RunsOnTable) {
  const Case cases[] = {
      {"sm_90a", gpu(90), false, true},       {"sm_90a", gpu(91), false, false},
      {"sm_90a", gpu(100), false, false},     {"sm_90", gpu(90), false, true},
      {"sm_80", gpu(80), false, true},        {"sm_80", gpu(86), false, true},
      {"sm_86", gpu(80), false, false},       {"sm_80", gpu(90), false, false},
      {"sm_80", gpu(90), true, false},        {"sm_120", gpu(121), false, true},
      {"sm_120", gpu(90), false, false},      {"compute_80", gpu(90), true, true},
      {"compute_80", gpu(90), false, false},  {"compute_80", gpu(75), true, false},
      {"compute_90a", gpu(100), true, false}, {"compute_90a", gpu(90), true, true},
      {"sm_90a", gpu(0), false, false},       {"x86-64", cpu(1), false, true},
      {"x86-64-v3", cpu(4), false, true},     {"x86-64-v3", cpu(3), false, true},
      {"x86-64-v4", cpu(3), false, false},    {"x86-64", gpu(90), false, false},
      {"sm_90a", cpu(4), true, false},
  };
  for (const auto& one : cases) {
    const auto support = runs_on(target(one.target), one.device, one.allow_ptx);
    EXPECT_EQ(static_cast<bool>(support), one.runs) << one.target << " on " << one.device.arch;
    if (support) continue;
    EXPECT_NE(support.reason().find(one.target), std::string::npos) << support.reason();
  }
}

TEST(Target, RefusalNamesBothSides) {
  const auto v4 = runs_on(target("x86-64-v4"), cpu(3), false);
  EXPECT_NE(v4.reason().find("x86-64-v4"), std::string::npos);
  EXPECT_NE(v4.reason().find("x86-64-v3 (Test CPU)"), std::string::npos) << v4.reason();
  const auto cubin = runs_on(target("sm_80"), gpu(90), false);
  EXPECT_NE(cubin.reason().find("9.0 (Test GPU)"), std::string::npos) << cubin.reason();
  const auto ptx = runs_on(target("compute_80"), gpu(90), false);
  EXPECT_NE(ptx.reason().find("not allowed"), std::string::npos) << ptx.reason();
}

TEST(Cpu, IsDetectedAndAgreesWithTheKernel) {
  unsetenv("OPFORGE_CPU_LEVEL");
  const auto info = detect_cpu();
  EXPECT_GE(info.sm_count, 1);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GE(info.l2_bytes, sysconf(_SC_LEVEL2_CACHE_SIZE));
  const auto text = read_file("/proc/cpuinfo");
  ASSERT_TRUE(text);
  EXPECT_NE(text->find(info.model), std::string::npos) << info.model;
  EXPECT_EQ(info.arch >= 3,
            text->find(" avx2 ") != std::string::npos && text->find(" aes ") != std::string::npos);
  EXPECT_EQ(info.arch >= 4, text->find(" avx512vl ") != std::string::npos);
}

TEST(Cpu, TheMaskOnlyTakesAway) {
  unsetenv("OPFORGE_CPU_LEVEL");
  const int real = detect_cpu().arch;
  for (int level = 1; level <= 4; ++level) {
    setenv("OPFORGE_CPU_LEVEL", std::to_string(level).c_str(), 1);
    EXPECT_EQ(detect_cpu().arch, std::min(real, level));
  }
  for (const char* nonsense : {"", "9", "v3", "3x"}) {
    setenv("OPFORGE_CPU_LEVEL", nonsense, 1);
    EXPECT_EQ(detect_cpu().arch, real);
  }
  unsetenv("OPFORGE_CPU_LEVEL");
}

}  // namespace
}  // namespace opforge
