// Host code on host memory: C block functions over ranges of work items, spread over threads that
// the runtime owns.
#include "runtime/launcher.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "backends/cpu/loader.hpp"
#include "backends/cpu/timer.hpp"
#include "runtime/arguments.hpp"
#include "runtime/threads.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace opforge {
namespace {

using BlockFunction = void (*)(const void* arguments, std::int64_t begin, std::int64_t end);

// A caller that flushes subnormals or rounds otherwise must not change the bits, and worker threads
// may differ from the caller: every block runs with the default floating-point state.
class DefaultFloatState {
 public:
#if defined(__x86_64__)
  DefaultFloatState() : saved_(_mm_getcsr()) {
    if ((saved_ & ~kStickyFlags) != kDefault) [[unlikely]]
      _mm_setcsr(kDefault);
  }
  ~DefaultFloatState() {
    if ((saved_ & ~kStickyFlags) != kDefault) [[unlikely]]
      _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kStickyFlags = 0x3f, kDefault = 0x1f80;
  unsigned saved_;
#endif
};

class CpuDevice : public DeviceApi {
 public:
  Support available() override { return Support::yes(); }
  std::vector<DeviceInfo> devices() override {
    static const DeviceInfo& cpu = *new DeviceInfo(detect_cpu());
    return {cpu};
  }
  Result<void*> allocate(int, std::size_t bytes, StreamHandle) override {
    const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kAlign, rounded);
    if (memory == nullptr)
      return fail(Code::kOutOfMemory, fmt::format("cpu: no {} bytes of memory", bytes), "cpu");
    return memory;
  }
  void release(int, void* memory, StreamHandle) override { std::free(memory); }
  Status copy(int, void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) std::memmove(to, from, bytes);
    return {};
  }
  Status synchronize(int, StreamHandle) override { return {}; }
  Result<StreamState> stream_state(int, StreamHandle) override { return StreamState{}; }
  Timer* timer() override { return &host_timer(); }

 private:
  static constexpr std::size_t kAlign = 64;  // a cache line, and the widest vector
};

// One arena of the runtime's own: a caller's TBB tasks never run inside a kernel call of ours, nor
// ours in theirs. Made anew when the number of threads changes.
std::shared_ptr<tbb::task_arena> arena(int threads) {
  struct State {
    std::mutex mutex;
    int threads = 0;
    std::shared_ptr<tbb::task_arena> arena;
  };
  static State& state = *new State;
  std::lock_guard lock(state.mutex);
  if (state.threads != threads) {
    state.arena = std::make_shared<tbb::task_arena>(threads);
    state.threads = threads;
  }
  return state.arena;
}

// A few chunks for each thread even out unequal cores; more only cost.
constexpr std::int64_t kChunksPerThread = 4;

void run_blocks(BlockFunction function, const void* arguments, std::int64_t items,
                std::int64_t grain) {
  // Whole grains, so that no call gets fewer items than asked for, except where there are not more
  // in all.
  const std::int64_t most = items / grain;
  const int threads = most < 2 ? 1 : cpu_threads();
  if (threads < 2) {
    const DefaultFloatState state;
    function(arguments, 0, items);
    return;
  }
  const std::int64_t chunks = std::min<std::int64_t>(most, threads * kChunksPerThread);
  const std::int64_t each = items / chunks, left = items % chunks;
  arena(threads)->execute([&] {
    tbb::parallel_for(
        std::int64_t{0}, chunks,
        [&](std::int64_t chunk) {
          const DefaultFloatState state;
          const std::int64_t begin = chunk * each + std::min(chunk, left);
          function(arguments, begin, begin + each + (chunk < left ? 1 : 0));
        },
        tbb::simple_partitioner());
  });
}

class CpuLauncher : public Launcher {
 public:
  std::string_view name() const override { return "cpu"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  bool accepts(CodeKind kind) const override { return kind == CodeKind::kElfShared; }
  DeviceApi& device_api() override { return device_; }

  Result<std::shared_ptr<LoadedCode>> load(const Artifact& artifact, const std::string& code, int,
                                           bool) override {
    const std::string name = to_string(artifact.variant);
    OPFORGE_ASSIGN(const Target target, parse_target(artifact.variant.target));
    if (const Support support = runs_on(target, device_.devices().front(), false); !support) {
      return fail(Code::kIncompatible, fmt::format("{}: {}", name, support.reason()), "cpu");
    }
    OPFORGE_ASSIGN(std::shared_ptr<HostCode> loaded, HostCode::open(name, code));
    return std::shared_ptr<LoadedCode>(std::move(loaded));
  }

  Status resolve(LoadedCode& code, const std::string& symbol, int, PreparedStep& step) override {
    step.function = static_cast<HostCode&>(code).symbol(symbol.c_str());
    if (step.function == nullptr) {
      return fail(Code::kCorrupt,
                  fmt::format("the code has no symbol '{}'; rebuild the pack", symbol), "cpu");
    }
    return {};
  }

  Status launch(const PreparedStep& step, void* const* tensors, void* workspace, int,
                StreamHandle) override {
    if (step.kind == StepKind::kMemset) {
      void* target = patched_pointer(step.memset_tensor, step.memset_add_bytes, tensors, workspace);
      if (target != nullptr)
        std::memset(target, step.memset_value, static_cast<std::size_t>(step.memset_bytes));
      return {};
    }
    ArgumentBlock arguments(step, tensors, workspace);
    run_blocks(reinterpret_cast<BlockFunction>(step.function), arguments.data(), step.items,
               step.grain);
    return {};
  }

 private:
  CpuDevice device_;
};

}  // namespace

Launcher* opforge_launcher_cpu() {
  static CpuLauncher& launcher = *new CpuLauncher;
  return &launcher;
}

}  // namespace opforge
