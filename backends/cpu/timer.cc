#include "backends/cpu/timer.hpp"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "runtime/threads.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace opforge {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  Status mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return {};
  }
  Result<std::vector<double>> read_us() override {
    std::vector<double> out;
    for (const auto& mark : marks_) {
      out.push_back(std::chrono::duration<double, std::micro>(mark - marks_.front()).count());
    }
    marks_.clear();
    return out;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

void copy_plain(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)
// Stores that do not read the destination's lines first.
void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
}
#endif

class HostTimer final : public Timer {
 public:
  Result<std::unique_ptr<Stopwatch>> open(int, StreamHandle, std::size_t) override {
    return std::make_unique<HostStopwatch>();
  }

  std::vector<std::string> copy_methods() const override {
#if defined(__x86_64__)
    return {"memcpy", "non-temporal"};
#else
    return {"memcpy"};
#endif
  }

  Status queue_copy(std::size_t method, int, StreamHandle, void* to, const void* from,
                    std::size_t bytes) override {
    if (method >= copy_methods().size()) {
      return fail(Code::kInvalidArgument, fmt::format("there is no copy method {}", method), "cpu");
    }
    auto* copy = &copy_plain;
#if defined(__x86_64__)
    if (method == 1) copy = &copy_streaming;
#endif
    const int threads = cpu_threads();
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    if (threads < 2) {
      copy(target, source, bytes);
      return {};
    }
    // A few chunks for each thread even out unequal cores, as kernels are run.
    const std::size_t chunks = static_cast<std::size_t>(threads) * 4;
    const std::size_t each = (bytes / chunks + 4095) / 4096 * 4096;
    tbb::task_arena arena(threads);
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, chunks, [&](std::size_t chunk) {
        const std::size_t begin = std::min(chunk * each, bytes);
        const std::size_t end = chunk + 1 == chunks ? bytes : std::min(begin + each, bytes);
        copy(target + begin, source + begin, end - begin);
      });
    });
    return {};
  }

  Status limit_threads(int threads) override {
    set_cpu_threads(threads);
    return {};
  }
};

}  // namespace

Timer& host_timer() {
  static HostTimer& timer = *new HostTimer;
  return timer;
}

}  // namespace opforge
