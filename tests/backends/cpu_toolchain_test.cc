// The cpu toolchain: what it compiles is right, freestanding, and the same bytes everywhere.
#include <sys/wait.h>
#include <unistd.h>

#include "backends/code_fixture.hpp"
#include "toolchain/elf.hpp"
#include "toolchain/host_compiler.hpp"

namespace opforge {
namespace {

using test::Folder;
using test::Setting;

std::string only_symbol(const Compiled& compiled) { return compiled.symbols.begin()->second; }

void expect_message(const Error& error, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(error.message.find(part), std::string::npos) << part << " in: " << error.message;
}

TEST(CpuToolchain, CompiledRowsAreRight) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
  ASSERT_TRUE(compiled) << compiled.error().message;
  const test::OpenCode code(compiled->code, only_symbol(*compiled));
  ASSERT_NE(code.function, nullptr);
  const std::vector<float> x{1, 2, 3, -1, 4, 5, 6, -1}, b{10, 20, 30};
  std::vector<float> y(8, -7);
  test::Slots slots;
  slots.add(x.data())
      .add(b.data())
      .add(y.data())
      .add<long long>(3)
      .add<long long>(4)
      .add<long long>(4)
      .add(0.5f);
  code.function(slots.data(), 1, 2);  // the second row only
  EXPECT_EQ(y, (std::vector<float>{-7, -7, -7, -7, 12, 22.5, 33, -7}));
}

TEST(CpuToolchain, BakedAttributesAndDtypesAreCompiledIn) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  Variant variant = test::cpu_variant(op, "x86-64-v2", DType::kBF16);
  variant.baked["negate"] = std::int64_t{1};
  auto compiled = test::compile(op, op.kernels.front(), variant);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const test::OpenCode code(compiled->code, only_symbol(*compiled));
  ASSERT_NE(code.function, nullptr);
  // 1.0078125 = 1 + 2^-7 is a bf16; three times it is 3.0234375, halfway between 3.015625
  // and 3.03125: to even, 3.03125.
  const std::vector<std::uint16_t> x{test::to_bf16(1.0078125f), 0x7fc0 /* NaN */};
  std::vector<std::uint16_t> y(2);
  test::Slots slots;
  slots.add(x.data())
      .add<const void*>(nullptr)
      .add(y.data())
      .add<long long>(2)
      .add<long long>(2)
      .add<long long>(2)
      .add(3.0f);
  code.function(slots.data(), 0, 1);
  EXPECT_EQ(y[0], test::to_bf16(-3.03125f));
  EXPECT_GT(y[1] & 0x7fff, 0x7f80);
}

TEST(CpuToolchain, CodeIsFreestandingForEveryTarget) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op, target));
    ASSERT_TRUE(compiled) << compiled.error().message;
    const auto facts = read_elf(compiled->code);
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_TRUE(facts->undefined.empty() && facts->needed.empty() && !facts->constructors)
        << target;
    EXPECT_EQ(facts->exported, (std::vector<std::string>{only_symbol(*compiled)}));
    EXPECT_GT(compiled->resources.code_bytes, 0);
  }
}

TEST(CpuToolchain, SameBytesFromAnotherFolder) {
  Folder here, there;
  const Operator a = test::scale_rows(here.path()), b = test::scale_rows(there / "deeper/folder");
  const auto first = test::compile(a, a.kernels.front(), test::cpu_variant(a));
  const auto second = test::compile(b, b.kernels.front(), test::cpu_variant(b));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->code == second->code);
  EXPECT_EQ(first->code.find(here.path().string()), std::string::npos);
}

// From the third compile on, system headers are precompiled: that must not be seen in the code.
TEST(CpuToolchain, SameBytesWithPrecompiledHeaders) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  std::set<std::string> codes;
  for (int i = 0; i < 4; i++) {
    const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
    ASSERT_TRUE(compiled) << compiled.error().message;
    codes.insert(compiled->code);
  }
  EXPECT_EQ(codes.size(), 1u);
}

TEST(CpuToolchain, ServesItsOwnTargetsOnly) {
  for (const auto& [name, expected] :
       {std::pair{"x86-64-v2", true}, {"x86-64-v4", true}, {"x86-64", false}, {"sm_90a", false}}) {
    const auto target = parse_target(name);
    ASSERT_TRUE(target);
    EXPECT_EQ(find_toolchain("cpu", *target) != nullptr, expected) << name;
  }
}

// Kernels that would not load, or not give the same results, everywhere.
TEST(CpuToolchain, RefusesWhatIsNotFreestanding) {
  const struct {
    const char* body;
    const char* named;
  } kCases[] = {{"extern \"C\" void missing_function(void*);\n"
                 "template <class V> void scale_rows(const void*, const void*, void* y, long long, "
                 "long long, long long, float, "
                 "long, long) { missing_function(y); }\n",
                 "missing_function"},
                {"extern \"C\" float expf(float);\n"
                 "template <class V> void scale_rows(const void*, const void*, void* y, long long, "
                 "long long, long long, float a, "
                 "long, long) { *static_cast<float*>(y) = expf(a); }\n",
                 "expf"},
                {"int volatile seed = 3; static int late = seed + 1;\n"
                 "template <class V> void scale_rows(const void*, const void*, void* y, long long, "
                 "long long, long long, float, "
                 "long, long) { *static_cast<int*>(y) = late; }\n",
                 "static constructors"}};
  for (const auto& test : kCases) {
    Folder folder;
    const Operator op = test::scale_rows(folder.path(), test.body);
    const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
    ASSERT_FALSE(compiled) << test.named;
    EXPECT_EQ(compiled.error().code, Code::kToolchain);
    expect_message(compiled.error(), {"scale_rows.cpu", test.named});
  }
}

TEST(CpuToolchain, ASyntaxErrorComesWithTheCompilersWords) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path(), "template <class V> void scale_rows( { }\n");
  const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
  ASSERT_FALSE(compiled);
  expect_message(compiled.error(), {"exited with 1", "error:", "cpu.cc:1"});
}

// A compiler that answers like the real one but fails on real work in the way that `work` says.
Path fake_compiler(const Folder& folder, std::string_view work) {
  const auto real = HostCompiler::find();
  const Path path = folder / "fake-cxx";
  test::put(path, "#!/bin/sh\ncase \"$*\" in *opforge_unit.so*) ;; *) exec " +
                      (*real)->path().string() + " \"$@\" ;; esac\n" + std::string(work));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(CpuToolchain, ACompilerThatFailsIsReported) {
  const struct {
    const char* work;
    const char* named;
  } kCases[] = {{"echo 'disk on fire' >&2; : > opforge_unit.so; exit 1\n", "disk on fire"},
                {": > opforge_unit.so; exit 0\n", "empty output"},
                {"exit 0\n", "left no output"},
                {"kill -SEGV $$\n", "SIGSEGV"},
                {"echo garbage > opforge_unit.so\n", "not a usable shared object"}};
  for (const auto& test : kCases) {
    Folder folder;
    const Path compiler = fake_compiler(folder, test.work);
    const Setting setting("OPFORGE_CXX", compiler.string());
    const Operator op = test::scale_rows(folder / "op");
    const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
    ASSERT_FALSE(compiled) << test.named;
    expect_message(compiled.error(), {test.named});
  }
}

TEST(CpuToolchain, AMissingCompilerSaysHowToGetOne) {
  const auto target = *parse_target("x86-64-v3");
  {
    const Setting path("PATH", "/nonexistent"), cxx("OPFORGE_CXX", "");
    const Support support = find_toolchain("cpu", target)->available();
    ASSERT_FALSE(support);
    EXPECT_NE(support.reason().find("apt-get install g++"), std::string::npos) << support.reason();
  }
  const Setting cxx("OPFORGE_CXX", "no-such-compiler");
  const Support support = find_toolchain("cpu", target)->available();
  ASSERT_FALSE(support);
  EXPECT_NE(support.reason().find("no-such-compiler"), std::string::npos);
}

TEST(CpuToolchain, SealedOrProductionProcessesCompileNothing) {
  Folder folder;
  const Operator op = test::scale_rows(folder.path());
  const pid_t child = fork();
  if (child == 0) {
    develop();
    seal();
    const auto compiled = test::compile(op, op.kernels.front(), test::cpu_variant(op));
    _exit(!compiled && compiled.error().code == Code::kCompilationSealed ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace opforge
