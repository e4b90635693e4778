#include "base/log.hpp"

#include <atomic>
#include <memory>
#include <mutex>

namespace opforge {
namespace {

constexpr int kOff = 100;
std::atomic<int> g_least{kOff};
std::mutex g_mutex;
std::shared_ptr<const LogSink> g_sink;  // under g_mutex

}  // namespace

void set_log_sink(LogSink sink, LogLevel least) {
  std::shared_ptr<const LogSink> next;
  if (sink) next = std::make_shared<const LogSink>(std::move(sink));
  const std::lock_guard lock(g_mutex);
  g_least.store(next ? static_cast<int>(least) : kOff, std::memory_order_relaxed);
  g_sink = std::move(next);
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= g_least.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view subsystem, std::string_view message) {
  if (!log_enabled(level)) return;
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(g_mutex);
    sink = g_sink;
  }
  // Outside the lock: a sink may log or replace itself.
  if (sink) (*sink)(level, subsystem, message);
}

}  // namespace opforge
