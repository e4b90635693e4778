// The launcher of host code, on a real shared object.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "backends/cpu/loader.hpp"
#include "runtime/backends.hpp"
#include "runtime/threads.hpp"

namespace opforge {
namespace {

std::string block_code() {
  std::ifstream file(std::string(OPFORGE_BINARY_DIR) + "/tests/fixtures/block.so",
                     std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Launcher& launcher() { return *find_launcher(DeviceKind::kCpu, CodeKind::kElfShared); }

Artifact artifact(const std::string& target = "x86-64") {
  Artifact made;
  made.variant.op = "test.block";
  made.variant.kernel = "block";
  made.variant.backend = "cpu";
  made.variant.target = target;
  return made;
}

// A step of one pointer parameter.
struct Launched {
  PreparedStep step;
  std::shared_ptr<LoadedCode> code;
  explicit Launched(const char* symbol, std::int64_t items, std::int64_t grain = 1) {
    auto loaded = launcher().load(artifact(), block_code(), 0, false);
    EXPECT_TRUE(loaded) << loaded.error().message;
    code = *loaded;
    step.items = items;
    step.grain = grain;
    step.arguments.resize(8);
    step.param_offsets = {0};
    step.param_sizes = {8};
    step.pointers = {{0, 0, 0}};
    const auto resolved = launcher().resolve(*code, symbol, 0, step);
    EXPECT_TRUE(resolved) << resolved.error().message;
  }
  void operator()(void* tensor) {
    void* tensors[] = {tensor};
    EXPECT_TRUE(launcher().launch(step, tensors, nullptr, 0, nullptr));
  }
};

class Threads {
 public:
  explicit Threads(int count) { set_cpu_threads(count); }
  ~Threads() { set_cpu_threads(0); }
};

TEST(CpuLauncher, EveryItemOnceInCallsOfAtLeastTheGrain) {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads limit(threads);
    for (const std::int64_t items : {1, 7, 64, 65, 1000, 4097}) {
      for (const std::int64_t grain : {1, 16, 64, 5000}) {
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(items), 0);
        Launched run("block_sizes", items, grain);
        run(sizes.data());
        const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        EXPECT_GE(*least, std::min(grain, items)) << threads << " threads, " << items << " items";
        EXPECT_TRUE(threads > 1 || *least == items);
        std::int64_t at = 0;  // calls cover whole ranges
        while (at < items) at += sizes[static_cast<std::size_t>(at)];
        EXPECT_EQ(at, items);
      }
    }
  }
}

TEST(CpuLauncher, TheCallersFloatStateDoesNotReachKernels) {
  const unsigned before = _mm_getcsr(), flushing = before | 0x8040;
  for (const int threads : {1, 4}) {
    const Threads limit(threads);
    std::vector<float> y(512, 0);
    Launched run("block_subnormal", 512);
    _mm_setcsr(flushing);
    run(y.data());
    EXPECT_EQ(_mm_getcsr() & 0x8040, 0x8040u);  // the caller's own is back
    _mm_setcsr(before);                         // comparisons flush too
    EXPECT_EQ(std::count_if(y.begin(), y.end(), [](float v) { return v == 0; }), 0);
  }
}

TEST(CpuLauncher, MemsetStep) {
  PreparedStep step;
  step.kind = StepKind::kMemset;
  step.memset_tensor = 0;
  step.memset_add_bytes = 4;
  step.memset_bytes = 8;
  step.memset_value = 0xab;
  unsigned char memory[16] = {};
  void* tensors[] = {memory};
  ASSERT_TRUE(launcher().launch(step, tensors, nullptr, 0, nullptr));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(memory[i], i >= 4 && i < 12 ? 0xab : 0);
}

// dlopen compares path strings: a descriptor number met again must not give the library that had it
// before.
TEST(CpuLauncher, LibrariesLoadedOneAfterAnotherAreDistinct) {
  const std::string code = block_code();
  std::vector<std::shared_ptr<HostCode>> held;
  for (int i = 0; i < 20; ++i) {
    auto a = HostCode::open("a", code);
    auto b = HostCode::open("b", code);
    ASSERT_TRUE(a && b);
    EXPECT_NE((*a)->symbol("block_scale"), (*b)->symbol("block_scale"));
    if (i % 3 == 0) held.push_back(*a);  // the others go, and their descriptors are used again
  }
  std::set<void*> addresses;
  for (const auto& one : held) EXPECT_TRUE(addresses.insert(one->symbol("block_scale")).second);
}

TEST(CpuLauncher, DamagedCodeIsNamed) {
  const std::string code = block_code();
  const auto error = [](std::string bytes, const std::string& target = "x86-64") {
    const auto loaded = launcher().load(artifact(target), bytes, 0, false);
    return loaded ? Error{Code::kInternal, "loaded", ""} : loaded.error();
  };
  EXPECT_EQ(error("").code, Code::kCorrupt);
  EXPECT_EQ(error("not an ELF file, but long enough to be one: ...................").code,
            Code::kCorrupt);
  EXPECT_EQ(error(code.substr(0, 200)).code, Code::kIo);
  std::string foreign = code;
  foreign[18] = static_cast<char>(183);  // AArch64
  EXPECT_EQ(error(foreign).code, Code::kIncompatible);
  PreparedStep step;
  auto loaded = launcher().load(artifact(), code, 0, false);
  const auto missing = launcher().resolve(**loaded, "no_such_function", 0, step);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no_such_function"), std::string::npos);
}

TEST(CpuLauncher, CodeForABetterCpuIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not looked at its CPU yet
  EXPECT_EXIT(
      {
        setenv("OPFORGE_CPU_LEVEL", "1", 1);
        const auto loaded = launcher().load(artifact("x86-64-v3"), block_code(), 0, false);
        std::exit(!loaded && loaded.error().code == Code::kIncompatible ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, "fast");
}

bool forbid_memory_files() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool loads_from_a_private_file() {
  if (!forbid_memory_files()) return true;  // this machine has no filters
  const std::string folder = testing::TempDir() + "/private" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  unsetenv("XDG_RUNTIME_DIR");
  setenv("TMPDIR", folder.c_str(), 1);
  const auto code = HostCode::open("a", block_code());
  const bool good =
      code && (*code)->symbol("block_scale") != nullptr && std::filesystem::is_empty(folder);
  std::filesystem::remove_all(folder);
  return good;
}

// Memory files may be forbidden: code is then loaded from a private file, which is gone afterwards.
TEST(CpuLauncher, WithoutMemoryFilesCodeComesFromAPrivateFile) {
  EXPECT_EXIT(std::exit(loads_from_a_private_file() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(CpuLauncher, ManyThreadsLaunchAtOnce) {
  const Threads limit(4);
  Launched run("block_sizes", 1000, 10);
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&run] {
      for (int i = 0; i < 50; ++i) {
        std::vector<std::int64_t> sizes(1000, 0);
        run(sizes.data());
        EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 0), 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(CpuDevice, MemoryIsAlignedAndZeroBytesAreFine) {
  DeviceApi& api = launcher().device_api();
  EXPECT_TRUE(api.available());
  ASSERT_EQ(api.devices().size(), 1u);
  for (const std::size_t bytes : {0, 1, 63, 64, 100000}) {
    const auto memory = api.allocate(0, bytes, nullptr);
    ASSERT_TRUE(memory);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*memory) % 64, 0u);
    api.release(0, *memory, nullptr);
  }
  EXPECT_FALSE(api.allocate(0, SIZE_MAX - 5, nullptr));
}

}  // namespace
}  // namespace opforge
