#include "runtime/seal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace opforge {
namespace {

enum State : int { kProduction, kDevelopment, kSealed };

std::atomic<int> g_state{kProduction};
std::mutex g_mutex;
// Under g_mutex. Each miss once: a service that meets the same one again and again must not grow.
std::vector<std::string>& misses() {
  static std::vector<std::string> list;
  return list;
}
constexpr std::size_t kMostMisses = 4096;

void remember(std::string_view what) {
  const std::lock_guard lock(g_mutex);
  auto& list = misses();
  if (list.size() >= kMostMisses) return;
  if (std::find(list.begin(), list.end(), what) == list.end()) list.emplace_back(what);
}

}  // namespace

void seal() { g_state.store(kSealed); }
bool is_sealed() { return g_state.load() == kSealed; }

void develop() {
  int expected = kProduction;
  g_state.compare_exchange_strong(expected, kDevelopment);
}
bool is_development() { return g_state.load() == kDevelopment; }

Status may_compile(std::string_view what) {
  const int state = g_state.load();
  if (state == kDevelopment) return {};
  remember(what);
  const char* why =
      state == kSealed
          ? "this process is sealed: build it into the pack (opforge build) and load that"
          : "this process is in production mode: build it into the pack (opforge build), or ask "
            "for "
            "development mode by name (--dev)";
  return fail(Code::kCompilationSealed,
              fmt::format("{} would have to be compiled, but {}", what, why), "runtime/seal");
}

std::vector<std::string> sealed_misses() {
  const std::lock_guard lock(g_mutex);
  return misses();
}

}  // namespace opforge
