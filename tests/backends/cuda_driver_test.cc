// Finding the CUDA driver, devices and their facts, memory, streams.
#include <fstream>
#include <thread>

#include "backends/cuda_harness.hpp"
#include "base/files.hpp"

namespace opforge::test {
namespace {

using cu::driver_candidates;
using cu::load_driver;

TEST_F(CudaTest, NamedDriverIsTheOnlyCandidate) {
  ASSERT_EQ(driver_candidates(), std::vector<std::string>{standin_path()});
  ::unsetenv("OPFORGE_LIBCUDA");
  const auto all = driver_candidates();
  ::setenv("OPFORGE_LIBCUDA", standin_path().c_str(), 1);
  ASSERT_EQ(all.front(), "libcuda.so.1");
  for (const char* folder : {"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                             "/usr/lib/wsl/lib", "/run/opengl-driver/lib"}) {
    EXPECT_NE(std::find(all.begin(), all.end(), std::string(folder) + "/libcuda.so.1"), all.end())
        << folder;
  }
}

TEST_F(CudaTest, ZeroByteStubAndMissingPathsAreSkippedAndRemembered) {
  auto dir = TempDir::create(OPFORGE_BINARY_DIR);
  ASSERT_TRUE(dir);
  const std::string empty = (dir->path() / "libcuda.so.1").string();
  std::ofstream(empty).close();
  const std::string absent = (dir->path() / "absent.so").string();
  const auto driver = load_driver(std::vector<std::string>{empty, absent, standin_path()});
  ASSERT_TRUE(driver) << driver.error().message;
  EXPECT_EQ(driver->path, standin_path());
  ASSERT_EQ(driver->attempts.size(), 2u);
  EXPECT_TRUE(mentions(driver->attempts[0], {empty, "empty"}));
  EXPECT_TRUE(mentions(driver->attempts[1], {absent}));
}

TEST_F(CudaTest, DetailsNameTheDriverAndWhatIsMissing) {
  ::setenv("OPFORGE_LIBNVML", "/no/such/libnvidia-ml.so.1", 1);
  const auto lines = launcher().details();
  ::unsetenv("OPFORGE_LIBNVML");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(mentions(lines[0], {standin_path(), "580 (CUDA 13.0)"}));
  EXPECT_TRUE(mentions(lines[1], {"clocks", "/no/such/libnvidia-ml.so.1"}));
}

TEST_F(CudaTest, NoDriverListsWhatWasTried) {
  cu::CudaDeviceApi devices([]() -> Result<const cu::Driver*> {
    auto driver = load_driver(std::vector<std::string>{"/no/such/a.so", "/no/such/b.so"});
    return fail(driver.error());
  });
  const Support support = devices.available();
  ASSERT_FALSE(support);
  EXPECT_TRUE(mentions(support.reason(), {"/no/such/a.so", "/no/such/b.so"}));
  EXPECT_TRUE(devices.devices().empty());
  EXPECT_EQ(devices.allocate(0, 16, nullptr).error().code, Code::kUnavailable);
}

TEST_F(CudaTest, LibraryWithoutTheEntryPointsIsNamed) {
  const auto driver = load_driver(std::vector<std::string>{"libm.so.6"});
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, Code::kIncompatible);
  EXPECT_TRUE(mentions(driver.error().message, {"libm.so.6", "cuInit", "too old"}));
}

TEST_F(CudaTest, NoVisibleDeviceIsAReason) {
  standin.set_devices(0);
  const Support support = devices().available();
  ASSERT_FALSE(support);
  EXPECT_TRUE(
      mentions(support.reason(), {"cuInit", "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"}));
}

TEST_F(CudaTest, InitialisationFailureIsAReason) {
  standin.fail("cuInit", 1, 999);
  EXPECT_TRUE(mentions(devices().available().reason(),
                       {"cuInit", "CUDA_ERROR_UNKNOWN (999)", "nvidia-smi"}));
}

TEST_F(CudaTest, FactsOfDevices) {
  standin.set_devices(2);
  standin.set_attribute(1, 75, 8);
  standin.set_attribute(1, 97, 166912);
  ASSERT_TRUE(devices().available());
  const auto all = devices().devices();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].arch, 90);
  EXPECT_EQ(all[0].driver_version, 13000);
  EXPECT_EQ(all[0].sm_count, 132);
  EXPECT_EQ(all[0].shared_bytes, 232448);
  EXPECT_EQ(all[0].l2_bytes, 62914560);
  EXPECT_EQ(all[0].memory_bytes, std::int64_t{1} << 37);
  EXPECT_EQ(all[0].warp_size, 32);
  EXPECT_EQ(all[1].arch, 80);
  EXPECT_EQ(all[1].shared_bytes, 166912);
  EXPECT_EQ(all[1].device, (Device{DeviceKind::kCuda, 1}));
}

TEST_F(CudaTest, FactsOfZeroGetSafeDefaults) {
  for (const int attribute : {16, 97, 8, 38, 10}) standin.set_attribute(0, attribute, 0);
  const auto all = devices().devices();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].sm_count, 1);
  EXPECT_EQ(all[0].shared_bytes, 49152);
  EXPECT_EQ(all[0].l2_bytes, 134217728);
  EXPECT_EQ(all[0].warp_size, 32);
}

TEST_F(CudaTest, DeviceWithoutCapabilityIsRefused) {
  standin.set_attribute(0, 75, 0);
  standin.set_attribute(0, 76, 0);
  EXPECT_TRUE(mentions(devices().available().reason(), {"compute capability", "device 0"}));
}

TEST_F(CudaTest, UnknownOrdinalNamesThoseThatExist) {
  EXPECT_TRUE(mentions(devices().allocate(3, 16, nullptr).error().message, {"cuda:3", "cuda:0"}));
}

TEST_F(CudaTest, MemoryComesAndGoes) {
  auto memory = devices().allocate(0, 1000, nullptr);
  ASSERT_TRUE(memory);
  EXPECT_EQ(standin.memory_used(0), 1000u);
  const int sent = 42;
  int back = 0;
  ASSERT_TRUE(devices().copy(0, *memory, &sent, sizeof sent));
  ASSERT_TRUE(devices().copy(0, &back, *memory, sizeof back));
  EXPECT_EQ(back, 42);
  devices().release(0, *memory, nullptr);
  EXPECT_EQ(standin.memory_used(0), 0u);
  EXPECT_EQ(standin.calls("cuMemAllocAsync"), 1);
  EXPECT_EQ(standin.calls("cuMemFreeAsync"), 1);
  EXPECT_EQ(*devices().allocate(0, 0, nullptr), nullptr);
  devices().release(0, nullptr, nullptr);
}

TEST_F(CudaTest, WithoutMemoryPoolsPlainAllocation) {
  standin.set_attribute(0, 115, 0);
  auto memory = devices().allocate(0, 1000, nullptr);
  ASSERT_TRUE(memory);
  devices().release(0, *memory, nullptr);
  EXPECT_EQ(standin.memory_used(0), 0u);
  EXPECT_EQ(standin.calls("cuMemAlloc_v2"), 1);
  EXPECT_EQ(standin.calls("cuMemAllocAsync"), 0);
}

TEST_F(CudaTest, OutOfMemoryIsNamed) {
  standin.set_memory(0, 1 << 20);
  const auto memory = devices().allocate(0, 2 << 20, nullptr);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::kOutOfMemory);
  EXPECT_TRUE(
      mentions(memory.error().message, {"2097152 bytes", "cuda:0", "CUDA_ERROR_OUT_OF_MEMORY"}));
}

TEST_F(CudaTest, StickyErrorSaysThatTheProcessIsLost) {
  standin.set_sticky(716);
  const Status status = devices().synchronize(0, nullptr);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kDriver);
  EXPECT_TRUE(mentions(status.error().message,
                       {"CUDA_ERROR_MISALIGNED_ADDRESS (716)", "sticky", "restarted"}));
  for (const int sticky : {700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 214})
    EXPECT_TRUE(cu::is_sticky(sticky)) << sticky;
  for (const int plain : {0, 1, 2, 100, 209, 500, 600, 701, 900, 906})
    EXPECT_FALSE(cu::is_sticky(plain)) << plain;
}

TEST_F(CudaTest, StreamsHaveIdsAndCaptureIsSeen) {
  Timer& timer = *devices().timer();
  auto a = timer.make_stream(0), b = timer.make_stream(0);
  ASSERT_TRUE(a && b);
  const auto of = [&](StreamHandle stream) { return *devices().stream_state(0, stream); };
  EXPECT_NE(of(*a).id, of(*b).id);
  EXPECT_EQ(of(*a).id, of(*a).id);
  EXPECT_NE(of(nullptr).id, of(*a).id);
  EXPECT_FALSE(of(*a).capturing);
  const auto id = of(*a).id;
  timer.release_stream(0, *a);
  auto again = timer.make_stream(0);
  EXPECT_NE(of(*again).id, id) << "a new stream at an old address is another stream";
  timer.release_stream(0, *b);
  timer.release_stream(0, *again);
}

TEST_F(CudaTest, NoAllocationUnderCapture) {
  auto memory = devices().allocate(0, 64, nullptr);
  ASSERT_TRUE(memory);
  bool refused = false, seen = false;
  auto recording = devices().timer()->record(0, [&](StreamHandle stream) -> Status {
    const auto inside = devices().allocate(0, 64, stream);
    refused = !inside && inside.error().code == Code::kUnavailable;
    EXPECT_TRUE(mentions(inside.error().message, {"captured", "before the capture"}));
    seen = devices().stream_state(0, stream)->capturing;
    devices().release(0, *memory, stream);  // may not reach the driver now
    return {};
  });
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_TRUE(refused);
  EXPECT_TRUE(seen);
  EXPECT_EQ(standin.memory_used(0), 64u) << "kept until the capture is over";
  auto next = devices().allocate(0, 32, nullptr);
  EXPECT_EQ(standin.memory_used(0), 32u) << "freed with the next allocation";
  devices().release(0, *next, nullptr);
}

TEST_F(CudaTest, LookingAtAStreamLeavesItsCaptureIntact) {
  auto recording = devices().timer()->record(0, [&](StreamHandle stream) -> Status {
    const auto state = devices().stream_state(0, stream);
    EXPECT_TRUE(state && state->capturing);
    return {};
  });
  EXPECT_TRUE(recording) << recording.error().message;
}

TEST_F(CudaTest, ErrorOfTheLegacyStreamUnderCaptureCountsAsCapture) {
  standin.fail("cuStreamIsCapturing", 0, 906);
  const auto state = devices().stream_state(0, nullptr);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->capturing);
  EXPECT_EQ(devices().allocate(0, 64, nullptr).error().code, Code::kUnavailable);
}

TEST_F(CudaTest, CurrentDeviceIsUnchanged) {
  standin.set_devices(2);
  ASSERT_TRUE(devices().available());
  auto first = devices().primary(0);
  ASSERT_TRUE(first);
  driver().context_push(*first);
  ASSERT_EQ(standin.current_device(), 0);
  auto memory = devices().allocate(1, 64, nullptr);
  ASSERT_TRUE(memory);
  EXPECT_EQ(standin.memory_used(1), 64u);
  EXPECT_EQ(standin.current_device(), 0);
  devices().release(1, *memory, nullptr);
  EXPECT_EQ(standin.current_device(), 0);
  ASSERT_TRUE(devices().synchronize(1, nullptr));
  EXPECT_EQ(standin.current_device(), 0);
  cu::Context popped = nullptr;
  driver().context_pop(&popped);
  std::thread([&] {
    EXPECT_EQ(standin.current_device(), -1);
    EXPECT_TRUE(devices().synchronize(1, nullptr));
    EXPECT_EQ(standin.current_device(), -1);
  }).join();
}

TEST_F(CudaTest, StopwatchGivesTimesInOrder) {
  auto stopwatch = devices().timer()->open(0, nullptr, 3);
  ASSERT_TRUE(stopwatch);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*stopwatch)->mark());
  EXPECT_EQ((*stopwatch)->mark().error().code, Code::kInvalidArgument);
  const auto times = (*stopwatch)->read_us();
  ASSERT_TRUE(times);
  ASSERT_EQ(times->size(), 3u);
  EXPECT_EQ((*times)[0], 0);
  EXPECT_LE((*times)[1], (*times)[2]);
  EXPECT_TRUE((*stopwatch)->read_us()->empty());
}

TEST_F(CudaTest, FailedRecordingEndsTheCapture) {
  const auto recording = devices().timer()->record(
      0, [](StreamHandle) -> Status { return fail(Code::kCancelled, "no"); });
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, Code::kCancelled);
  EXPECT_EQ(standin.calls("cuStreamEndCapture"), 1);
  EXPECT_EQ(standin.calls("cuGraphDestroy"), 1);
  EXPECT_EQ(standin.calls("cuStreamDestroy_v2"), 1);
}

}  // namespace
}  // namespace opforge::test
