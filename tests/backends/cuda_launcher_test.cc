// Loading, resolving and launching over the stand-in driver.
#include <thread>

#include "backends/cuda_harness.hpp"
#include "runtime/seal.hpp"

namespace opforge::test {
namespace {

constexpr const char* kPtx =
    ".version 9.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry add(\n.param .u64 add_param_0,\n.param .u32 add_param_1,\n.param .f32 "
    "add_param_2\n)\n{\nret;\n}\n";

template <class T>
T param(const StandinLaunch& launch, int index) {
  T value{};
  EXPECT_EQ(launch.param_sizes[index], sizeof(T));
  std::memcpy(&value, launch.params + launch.param_offsets[index], sizeof value);
  return value;
}

TEST_F(CudaTest, LaunchReachesTheDriverWithEveryByte) {
  auto code = load(cubin());
  PreparedStep s = step();
  s.grid[1] = 65535;
  s.shared_bytes = 100;
  s.pointers[0].add_bytes = 32;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  int target = 0;
  void* tensors[] = {&target};
  const Status status = launcher().launch(s, tensors, nullptr, 0, nullptr);
  ASSERT_TRUE(status) << status.error().message;
  const auto launches = standin.launches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_STREQ(launches[0].symbol, "add");
  EXPECT_EQ(launches[0].grid[0], 3u);
  EXPECT_EQ(launches[0].grid[1], 65535u);
  EXPECT_EQ(launches[0].block[0], 128u);
  EXPECT_EQ(launches[0].shared_bytes, 100u);
  EXPECT_FALSE(launches[0].through_ex);
  EXPECT_EQ(param<std::uint64_t>(launches[0], 0), reinterpret_cast<std::uintptr_t>(&target) + 32);
  EXPECT_EQ(param<std::int32_t>(launches[0], 1), 7);
  EXPECT_EQ(param<float>(launches[0], 2), 1.5f);
}

TEST_F(CudaTest, AttributesGoThroughTheExtendedLaunch) {
  auto code = load(cubin());
  PreparedStep s = step();
  s.grid[0] = 32;
  s.cluster[0] = 16, s.cluster[1] = s.cluster[2] = 1;
  s.programmatic = s.cooperative = true;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  void* tensors[] = {nullptr};
  const Status status = launcher().launch(s, tensors, nullptr, 0, nullptr);
  ASSERT_TRUE(status)
      << status.error().message;  // 16 blocks are taken only with the non-portable attribute
  const auto launch = standin.launches().at(0);
  EXPECT_TRUE(launch.through_ex);
  EXPECT_EQ(launch.cluster[0], 16u);
  EXPECT_TRUE(launch.programmatic);
  EXPECT_TRUE(launch.cooperative);
  EXPECT_EQ(param<std::uint64_t>(launch, 0), 0u) << "an absent tensor is a null pointer";
}

TEST_F(CudaTest, EmptyGridLaunchesNothing) {
  auto code = load(cubin());
  PreparedStep s = step();
  s.grid[0] = 0;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  void* tensors[] = {nullptr};
  EXPECT_TRUE(launcher().launch(s, tensors, nullptr, 0, nullptr));
  EXPECT_EQ(standin.launch_count(), 0);
}

TEST_F(CudaTest, MemsetSteps) {
  ASSERT_NE(load(cubin()), nullptr);
  auto memory = devices().allocate(0, 256, nullptr);
  PreparedStep s;
  s.kind = StepKind::kMemset;
  s.memset_add_bytes = 64;
  s.memset_bytes = 128;
  s.memset_value = 0xff;
  ASSERT_TRUE(launcher().launch(s, nullptr, *memory, 0, nullptr));
  const auto record = standin.memsets().at(0);
  EXPECT_EQ(record.address, reinterpret_cast<std::uintptr_t>(*memory) + 64);
  EXPECT_EQ(record.bytes, 128u);
  EXPECT_EQ(record.value, 0xff);
  devices().release(0, *memory, nullptr);
}

TEST_F(CudaTest, WrongArchitectureNamesBothSides) {
  const auto loaded =
      launcher().load(artifact("sm_100a"), fake_cubin(100, {{"add", {8}}}), 0, false);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kIncompatible);
  EXPECT_TRUE(mentions(loaded.error().message, {"sm_100a", "opforge stand-in"}));
  // 9.0 code on 9.1, when it is for 9.0 alone.
  standin.set_attribute(0, 76, 1);
}

TEST_F(CudaTest, SpecificCodeRunsOnItsExactArchitectureOnly) {
  standin.set_attribute(0, 76, 1);
  EXPECT_EQ(launcher().load(artifact("sm_90a"), cubin(), 0, false).error().code,
            Code::kIncompatible);
  EXPECT_TRUE(launcher().load(artifact("sm_90"), cubin(), 0, false));
}

TEST_F(CudaTest, CodeOfTheBuildMachineInThePackIsFound) {
  const auto loaded = launcher().load(artifact("sm_90a"), fake_cubin(80, {{"add", {8}}}), 0, false);
  ASSERT_FALSE(loaded);
  EXPECT_TRUE(mentions(loaded.error().message, {"sm_90a", "sm_80", "rebuild"}));
  EXPECT_EQ(standin.calls("cuLibraryLoadData"), 0);
}

TEST_F(CudaTest, DamagedCodeIsCorrupt) {
  const std::string whole = cubin();
  for (const std::string& code :
       {std::string(), std::string("garbage"), whole.substr(0, whole.size() / 2)}) {
    const auto loaded = launcher().load(artifact(), code, 0, false);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
  }
  EXPECT_EQ(standin.images(), 0);
}

TEST_F(CudaTest, TooOldDriverNamesBothVersions) {
  standin.set_driver_version(12040);
  const auto loaded = launcher().load(artifact(), cubin(), 0, false);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kIncompatible);
  EXPECT_TRUE(
      mentions(loaded.error().message, {"580 (CUDA 13.0)", "CUDA 12.4", "update the driver"}));
}

TEST_F(CudaTest, PtxOnlyWhenAllowed) {
  const Artifact ptx = artifact("compute_80", CodeKind::kPtx);
  const auto refused = launcher().load(ptx, kPtx, 0, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
  EXPECT_TRUE(mentions(refused.error().message, {"compute_80"}));
  EXPECT_EQ(standin.jit_count(), 0);
  auto loaded = launcher().load(ptx, kPtx, 0, true);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(standin.jit_count(), 1);
  PreparedStep s = step();
  EXPECT_TRUE(launcher().resolve(**loaded, "add", 0, s));
}

TEST_F(CudaTest, PtxNewerThanTheDriverIsNamed) {
  Artifact ptx = artifact("compute_80", CodeKind::kPtx);
  std::string newer = kPtx;
  newer.replace(newer.find("9.0"), 3, "9.4");
  const auto loaded = launcher().load(ptx, newer, 0, true);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kIncompatible);
  EXPECT_TRUE(
      mentions(loaded.error().message, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA 13.0"}));
}

// In a child: a seal cannot be undone.
TEST_F(CudaTest, PtxIsNeverCompiledWhenSealed) {
  EXPECT_EXIT(
      {
        seal();
        const auto loaded = launcher().load(artifact("compute_80", CodeKind::kPtx), kPtx, 0, true);
        const bool good = !loaded && loaded.error().code == Code::kCompilationSealed &&
                          standin.jit_count() == 0 && sealed_misses().size() == 1;
        std::_Exit(good ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(CudaTest, MissingSymbolListsThoseThatExist) {
  auto code = load(fake_cubin(90, {{"add", {8, 4, 4}}, {"mul", {8}}}));
  PreparedStep s = step();
  const Status status = launcher().resolve(*code, "sub", 0, s);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNotFound);
  EXPECT_TRUE(mentions(status.error().message, {"'sub'", "add, mul"}));
}

TEST_F(CudaTest, OutOfMemoryWhileLoading) {
  standin.fail("cuLibraryLoadData", 1, 2);
  EXPECT_EQ(launcher().load(artifact(), cubin(), 0, false).error().code, Code::kOutOfMemory);
}

TEST_F(CudaTest, LoadingUnderCaptureIsUnavailable) {
  standin.fail("cuLibraryLoadData", 1, 900);
  const auto loaded = launcher().load(artifact(), cubin(), 0, false);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kUnavailable);
  EXPECT_TRUE(mentions(loaded.error().message, {"captured into a graph", "before the capture"}));
}

// Lazy loading: what a launch needs is on the device when resolve() returns.
TEST_F(CudaTest, ResolvingBringsTheCodeToTheDevice) {
  auto code = load(cubin());
  PreparedStep s = step();
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  EXPECT_EQ(standin.calls("cuKernelGetFunction"), 1);
  standin.fail("cuKernelGetFunction", 1, 2);
  EXPECT_EQ(launcher().resolve(*code, "add", 0, s).error().code, Code::kOutOfMemory);
}

TEST_F(CudaTest, ParameterTableMustMatch) {
  PreparedStep s = step();
  auto fewer = load(cubin({"add", {8, 4}}));
  EXPECT_TRUE(
      mentions(launcher().resolve(*fewer, "add", 0, s).error().message, {"3 parameters", "2"}));
  auto more = load(cubin({"add", {8, 4, 4, 4}}));
  EXPECT_TRUE(
      mentions(launcher().resolve(*more, "add", 0, s).error().message, {"more than the 3"}));
  auto other = load(cubin({"add", {8, 8, 4}}));
  const Status status = launcher().resolve(*other, "add", 0, s);
  EXPECT_EQ(status.error().code, Code::kIncompatible);
  EXPECT_TRUE(mentions(status.error().message,
                       {"parameter 1", "4 bytes at offset 8", "8 bytes at offset 8"}));
}

TEST_F(CudaTest, SharedMemoryAboveTheLimitNamesBothNumbers) {
  standin.set_attribute(0, 97, 101376);  // a smaller chip
  FakeKernel kernel{"add", {8, 4, 4}};
  kernel.static_shared = 1024;
  auto code = load(cubin(kernel));
  PreparedStep s = step();
  s.shared_bytes = 101376;
  const Status status = launcher().resolve(*code, "add", 0, s);
  ASSERT_FALSE(status);
  EXPECT_TRUE(mentions(status.error().message, {"102400 bytes", "101376", "1024 static"}));
  s.shared_bytes = 100352;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  void* tensors[] = {nullptr};
  EXPECT_TRUE(launcher().launch(s, tensors, nullptr, 0, nullptr)) << "the attribute was not set";
}

TEST_F(CudaTest, SmallerPlanDoesNotTakeSharedMemoryFromALargerOne) {
  auto code = load(cubin());
  PreparedStep large = step(), small = step();
  large.shared_bytes = 200000;
  small.shared_bytes = 60000;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, large));
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, small));
  void* tensors[] = {nullptr};
  EXPECT_TRUE(launcher().launch(large, tensors, nullptr, 0, nullptr));
  EXPECT_TRUE(launcher().launch(small, tensors, nullptr, 0, nullptr));
}

TEST_F(CudaTest, LaunchLimitsAreNamedErrors) {
  FakeKernel kernel{"add", {8, 4, 4}};
  kernel.max_threads = 256;
  auto code = load(cubin(kernel));
  const auto message = [&](auto change) {
    PreparedStep s = step();
    change(s);
    const Status status = launcher().resolve(*code, "add", 0, s);
    EXPECT_FALSE(status);
    return status ? std::string() : status.error().message;
  };
  EXPECT_TRUE(mentions(message([](auto& s) { s.grid[1] = 65536; }), {"grid y", "65536", "65535"}));
  EXPECT_TRUE(
      mentions(message([](auto& s) { s.grid[2] = 131073; }), {"grid z", "131073", "65535"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.grid[0] = 0x80000000u; }),
                       {"grid x", "2147483648", "2147483647"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.block[0] = 2048; }),
                       {"threads in a block", "2048", "1024"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.block[2] = 65; }), {"block z", "65", "64"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.block[1] = 0; }), {"(128, 0, 1)"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.block[0] = 512; }), {"512 threads", "256"}));
  EXPECT_TRUE(mentions(
      message([](auto& s) { s.grid[0] = 32, s.cluster[0] = 32, s.cluster[1] = s.cluster[2] = 1; }),
      {"cluster", "32", "16"}));
  EXPECT_TRUE(mentions(message([](auto& s) { s.cluster[0] = 2, s.cluster[1] = s.cluster[2] = 1; }),
                       {"grid (3, 1, 1)", "cluster (2, 1, 1)"}));
}

TEST_F(CudaTest, ClustersNeedTheirArchitecture) {
  standin.set_attribute(0, 75, 8);
  auto loaded = launcher().load(artifact("sm_80"), fake_cubin(80, {{"add", {8, 4, 4}}}), 0, false);
  ASSERT_TRUE(loaded);
  PreparedStep s = step();
  s.grid[0] = 4, s.cluster[0] = 2, s.cluster[1] = s.cluster[2] = 1;
  EXPECT_TRUE(
      mentions(launcher().resolve(**loaded, "add", 0, s).error().message, {"sm_90", "sm_80"}));
}

TEST_F(CudaTest, FailedLaunchNamesTheDriversError) {
  auto code = load(cubin());
  PreparedStep s = step();
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  void* tensors[] = {nullptr};
  standin.fail("cuLaunchKernel", 1, 719);
  const Status status = launcher().launch(s, tensors, nullptr, 0, nullptr);
  ASSERT_FALSE(status);
  EXPECT_TRUE(mentions(status.error().message,
                       {"cuLaunchKernel", "CUDA_ERROR_LAUNCH_FAILED (719)", "(3, 1, 1)"}));
  EXPECT_TRUE(launcher().launch(s, tensors, nullptr, 0, nullptr));
}

TEST_F(CudaTest, OneImageServesTwoDevicesAndTheCurrentOneStays) {
  standin.set_devices(2);
  auto code = load(cubin());
  PreparedStep first = step(), second = step();
  second.shared_bytes = first.shared_bytes = 100000;
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, first));
  ASSERT_TRUE(launcher().resolve(*code, "add", 1, second));
  driver().context_push(*devices().primary(0));
  void* tensors[] = {nullptr};
  EXPECT_TRUE(launcher().launch(second, tensors, nullptr, 1, nullptr));
  EXPECT_EQ(standin.current_device(), 0);
  EXPECT_TRUE(launcher().launch(first, tensors, nullptr, 0, nullptr));
  EXPECT_EQ(standin.launches().at(0).device, 1);
  EXPECT_EQ(standin.launches().at(1).device, 0);
  cu::Context popped = nullptr;
  driver().context_pop(&popped);
}

TEST_F(CudaTest, FirstLaunchFromAFreshThread) {
  auto code = load(cubin());
  PreparedStep s = step();
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  std::thread([&] {
    ASSERT_EQ(standin.current_device(), -1);
    void* tensors[] = {nullptr};
    const Status status = launcher().launch(s, tensors, nullptr, 0, nullptr);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(standin.current_device(), -1);
  }).join();
  EXPECT_EQ(standin.launch_count(), 1);
}

TEST_F(CudaTest, StreamsReachTheLaunch) {
  auto code = load(cubin());
  PreparedStep s = step();
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  auto stream = devices().timer()->make_stream(0);
  void* tensors[] = {nullptr};
  ASSERT_TRUE(launcher().launch(s, tensors, nullptr, 0, *stream));
  EXPECT_EQ(standin.launches().at(0).stream_id, devices().stream_state(0, *stream)->id);
  auto recording = devices().timer()->record(0, [&](StreamHandle captured) {
    return launcher().launch(s, tensors, nullptr, 0, captured);
  });
  ASSERT_TRUE(recording);
  EXPECT_TRUE(standin.launches().at(1).captured);
  EXPECT_TRUE((*recording)->queue(*stream));
  EXPECT_EQ(standin.calls("cuGraphLaunch"), 1);
  devices().timer()->release_stream(0, *stream);
}

TEST_F(CudaTest, ModulesServeDriversWithoutLibraries) {
  cu::Driver& old = driver();
  old.library_load = nullptr;
  old.kernel_param = nullptr;
  old.launch_ex = nullptr;
  {
    auto code = load(cubin());
    EXPECT_EQ(standin.calls("cuModuleLoadData"), 1);
    PreparedStep s = step();
    s.shared_bytes = 100000;
    ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
    void* tensors[] = {nullptr};
    EXPECT_TRUE(launcher().launch(s, tensors, nullptr, 0, nullptr));
    PreparedStep clustered = step();
    clustered.programmatic = true;
    EXPECT_TRUE(mentions(launcher().resolve(*code, "add", 0, clustered).error().message,
                         {"525 (CUDA 12.0)"}));
  }
  EXPECT_EQ(standin.images(), 0);
}

TEST_F(CudaTest, CodeIsUnloadedWithItsLastUser) {
  auto code = load(cubin());
  EXPECT_EQ(standin.images(), 1);
  code.reset();
  EXPECT_EQ(standin.images(), 0);
}

TEST_F(CudaTest, TensorMapsAreEncodedOncePerBase) {
  auto code = load(cubin({"add", {128}}));
  PreparedStep s = step();
  s.pointers.clear();
  s.param_offsets = {0};
  s.param_sizes = {128};
  s.arguments.assign(128, std::byte{0});
  s.maps = {{0, 0, 64, DType::kBF16, {1024, 77}, {2048}, {64, 32}, {1, 1}, 0, 3, 2, 0}};
  ASSERT_TRUE(launcher().resolve(*code, "add", 0, s));
  alignas(64) static char memory[2][4096];
  void* one[] = {memory[0]};
  void* two[] = {memory[1]};
  for (auto* tensors : {one, two, one, two})
    ASSERT_TRUE(launcher().launch(s, tensors, nullptr, 0, nullptr));
  ASSERT_EQ(standin.map_count(), 2);
  const auto map = standin.maps().at(0);
  EXPECT_EQ(map.type, 9);  // CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
  EXPECT_EQ(map.rank, 2u);
  EXPECT_EQ(map.base, reinterpret_cast<std::uintptr_t>(memory[0]) + 64);
  EXPECT_EQ(map.dims[0], 1024u);
  EXPECT_EQ(map.dims[1], 77u);
  EXPECT_EQ(map.strides[0], 2048u);
  EXPECT_EQ(map.box[0], 64u);
  EXPECT_EQ(map.box[1], 32u);
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(map.l2_promotion, 2);
  EXPECT_EQ((param<std::array<std::uint32_t, 32>>(standin.launches().at(2), 0)[0]), 1u)
      << "the first map again";
  s.maps[0].dims[1] = 0;
  EXPECT_TRUE(mentions(launcher().launch(s, one, nullptr, 0, nullptr).error().message,
                       {"cuTensorMapEncodeTiled", "1024 x 0", "multiples of 16"}));
}

}  // namespace
}  // namespace opforge::test
