// The reader of cubins and PTX, over cubins made byte by byte and damaged ones.
#include <gtest/gtest.h>

#include "artifact/cubin.hpp"
#include "backends/cuda_harness.hpp"

namespace opforge::test {
namespace {


std::string two_kernels(int abi) {
  FakeKernel a{"alpha", {8, 4, 8, 128, 2}};
  a.static_shared = 512;
  a.registers = 40;
  FakeKernel b{"beta", {}};
  b.frame = 96;
  return fake_cubin(90, {b, a}, abi);
}

TEST(CudaCubin, KernelsParametersAndResources) {
  for (const int abi : {7, 8}) {
    const auto cubin = read_cubin(two_kernels(abi));
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->arch, 90);
    ASSERT_EQ(cubin->kernels.size(), 2u);
    const auto* alpha = cubin->find("alpha");
    ASSERT_NE(alpha, nullptr);
    ASSERT_EQ(alpha->params.size(), 5u);
    const std::uint32_t offsets[] = {0, 8, 16, 64, 192}, sizes[] = {8, 4, 8, 128, 2};
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(alpha->params[i].offset_bytes, offsets[i]);
      EXPECT_EQ(alpha->params[i].size_bytes, sizes[i]);
    }
    EXPECT_EQ(alpha->registers, 40);
    EXPECT_EQ(alpha->shared_bytes, 512);
    EXPECT_EQ(alpha->code_bytes, 128);
    EXPECT_EQ(cubin->find("beta")->local_bytes, 96);
    EXPECT_TRUE(cubin->find("beta")->params.empty());
    EXPECT_EQ(cubin->find("gamma"), nullptr);
  }
}

// Every cut is an error, never a crash; flipped bytes are an error or a reading, never a crash.
TEST(CudaCubin, DamageIsAnErrorOrHarmless) {
  const std::string whole = two_kernels(8);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_cubin(whole.substr(0, size))) << size;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0xff);
    (void)read_cubin(flipped);
  }
}

TEST(CudaCubin, ForeignElfIsNamed) {
  std::string host = two_kernels(8);
  host[18] = 62;  // x86-64
  const auto cubin = read_cubin(host);
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code, Code::kCorrupt);
  EXPECT_TRUE(mentions(cubin.error().message, {"machine 62"}));
}

TEST(CudaPtx, EntriesAndArchitecture) {
  const auto ptx =
      read_ptx(".version 8.0\n.target sm_90a\n.visible .entry b(\n)\n{\n}\n.entry a{\n}\n");
  ASSERT_TRUE(ptx);
  EXPECT_EQ(ptx->arch, 90);
  EXPECT_EQ(ptx->entries, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_ptx("nothing").error().code, Code::kCorrupt);
}

TEST(CudaPtx, FloatAtomicsAreRefusedForDeterminism) {
  const auto with = [](const std::string& line) {
    return check_no_float_atomics(".version 8.0\n.visible .entry sum(\n)\n{\n" + line +
                                  "\nret;\n}\n");
  };
  for (const char* bad :
       {"red.global.add.f32 [%rd1], %f1;", "atom.global.add.f32 %f2, [%rd1], %f1;",
        "@%p1 red.global.gpu.add.f64 [%rd1], %fd1;",
        "atom.global.add.noftz.f16x2 %r1, [%rd1], %r2;",
        "{ atom.add.noftz.bf16 %h1, [%rd1], %h2; }", "atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
        "mov.u32 %r1, 0; red.shared.add.f32 [%r1], %f1;",
        "red.global.v4.f32.add [%rd1], {%f1, %f2, %f3, %f4};"}) {
    const Status status = with(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_EQ(status.error().code, Code::kInvalidDeclaration);
    EXPECT_TRUE(mentions(status.error().message, {"sum uses", "DETERMINISTIC"}));
  }
  for (const char* good :
       {"add.f32 %f1, %f2, %f3;", "red.global.add.u32 [%rd1], 1;",
        "atom.global.max.s32 %r1, [%rd1], %r2;", "redux.sync.max.s32 %r1, %r2, 0xffffffff;",
        "// red.global.add.f32 in words", "barrier.cluster.arrive.release.aligned;"}) {
    EXPECT_TRUE(with(good)) << good;
  }
}

}  // namespace
}  // namespace opforge::test
