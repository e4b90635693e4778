#include "runtime/trace.hpp"

#include <atomic>
#include <deque>
#include <mutex>

namespace opforge {
namespace {

std::atomic<bool> g_on{false};
std::mutex g_mutex;
struct Ring {
  std::deque<TraceRecord> records;
  std::size_t capacity = 0;
  std::uint64_t dropped = 0;
};
// Under g_mutex.
Ring& ring() {
  static Ring instance;
  return instance;
}

}  // namespace

void trace_start(std::size_t capacity) {
  const std::lock_guard lock(g_mutex);
  ring() = Ring{.records = {}, .capacity = capacity, .dropped = 0};
  g_on.store(true, std::memory_order_relaxed);
}

void trace_stop() { g_on.store(false, std::memory_order_relaxed); }

bool trace_on() { return g_on.load(std::memory_order_relaxed); }

void trace_add(TraceRecord record) {
  if (!trace_on()) return;
  TraceRecord oldest;  // freed after the lock
  const std::lock_guard lock(g_mutex);
  Ring& r = ring();
  if (r.capacity == 0) {
    ++r.dropped;
    return;
  }
  if (r.records.size() >= r.capacity) {
    oldest = std::move(r.records.front());
    r.records.pop_front();
    ++r.dropped;
  }
  r.records.push_back(std::move(record));
}

std::vector<TraceRecord> trace_take() {
  std::deque<TraceRecord> taken;
  {
    const std::lock_guard lock(g_mutex);
    taken.swap(ring().records);
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

std::uint64_t trace_dropped() {
  const std::lock_guard lock(g_mutex);
  return ring().dropped;
}

}  // namespace opforge
