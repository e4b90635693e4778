#include "runtime/threads.hpp"

#include <sched.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace opforge {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

int initial_threads() {
  static const int threads = [] {
    if (const char* text = std::getenv("OPFORGE_THREADS"); text != nullptr) {
      int value = 0;
      const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
      if (error == std::errc{} && *end == '\0' && value >= 1) return value;
    }
    return usable_cores();
  }();
  return threads;
}

std::atomic<int> chosen{0};  // 0: the initial value

}  // namespace

int cpu_threads() {
  const int threads = chosen.load(std::memory_order_relaxed);
  return threads > 0 ? threads : initial_threads();
}

void set_cpu_threads(int threads) {
  chosen.store(threads < 1 ? 0 : threads, std::memory_order_relaxed);
}

}  // namespace opforge
