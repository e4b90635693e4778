#include "runtime/metrics.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "runtime/seal.hpp"
#include "runtime/trace.hpp"

namespace opforge {
namespace {

using FallbackKey = std::tuple<std::string, Contract, Tier>;
using EventKey = std::pair<std::string, std::string>;
using Hook = std::function<void(std::string_view, Contract, Tier)>;

struct Counters {
  std::map<FallbackKey, std::uint64_t> fallbacks;
  std::map<EventKey, std::uint64_t> events;
  std::shared_ptr<const Hook> hook;
};
std::mutex g_mutex;
Counters& counters() {  // under g_mutex
  static Counters instance;
  return instance;
}

// Names come from callers: a service that asks for ever new ones must not grow without bound.
constexpr std::size_t kMostRows = 4096;
constexpr const char* kOther = "(other)";

// Printable in a label: OpenMetrics is UTF-8, and escapes backslash, quote and line feed.
std::string label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
  }
  return out;
}

void header(std::string& text, std::string_view name, std::string_view type,
            std::string_view help) {
  text += fmt::format("# TYPE {} {}\n# HELP {} {}\n", name, type, name, help);
}

}  // namespace

void count_fallback(std::string_view op, Contract asked, Tier used) {
  std::shared_ptr<const Hook> hook;
  {
    const std::lock_guard lock(g_mutex);
    Counters& all = counters();
    FallbackKey key{std::string(op), asked, used};
    if (all.fallbacks.size() >= kMostRows && !all.fallbacks.contains(key))
      std::get<0>(key) = kOther;
    ++all.fallbacks[std::move(key)];
    hook = all.hook;
  }
  if (hook) (*hook)(op, asked, used);
}

void count_event(std::string_view op, std::string_view name) {
  const std::lock_guard lock(g_mutex);
  Counters& all = counters();
  EventKey key{op, name};
  if (all.events.size() >= kMostRows && !all.events.contains(key)) key = {kOther, kOther};
  ++all.events[std::move(key)];
}

std::vector<FallbackCount> fallback_counts() {
  const std::lock_guard lock(g_mutex);
  std::vector<FallbackCount> rows;
  for (const auto& [key, count] : counters().fallbacks) {
    rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  }
  return rows;
}

std::vector<NamedCount> event_counts() {
  const std::lock_guard lock(g_mutex);
  std::vector<NamedCount> rows;
  for (const auto& [key, count] : counters().events) rows.push_back({key.first, key.second, count});
  return rows;
}

void reset_counts() {
  const std::lock_guard lock(g_mutex);
  counters().fallbacks.clear();
  counters().events.clear();
}

void set_fallback_hook(Hook hook) {
  std::shared_ptr<const Hook> next;
  if (hook) next = std::make_shared<const Hook>(std::move(hook));
  const std::lock_guard lock(g_mutex);
  counters().hook = std::move(next);
}

std::string metrics_text() {
  std::string text;
  header(text, "opforge_fallbacks", "counter", "Calls served by a stricter tier than asked.");
  for (const FallbackCount& row : fallback_counts()) {
    text += fmt::format("opforge_fallbacks_total{{op=\"{}\",asked=\"{}\",used=\"{}\"}} {}\n",
                        label(row.op), tier_name(row.asked), tier_name(row.used), row.count);
  }
  header(text, "opforge_events", "counter", "Calls by what befell them.");
  for (const NamedCount& row : event_counts()) {
    text += fmt::format("opforge_events_total{{op=\"{}\",event=\"{}\"}} {}\n", label(row.op),
                        label(row.name), row.count);
  }
  header(text, "opforge_trace_dropped_records", "counter",
         "Trace records dropped since tracing was started.");
  text += fmt::format("opforge_trace_dropped_records_total {}\n", trace_dropped());
  header(text, "opforge_sealed", "gauge", "1 when nothing may compile in this process any more.");
  text += fmt::format("opforge_sealed {}\n", is_sealed() ? 1 : 0);
  header(text, "opforge_refused_compilations", "gauge", "Distinct compilations that were refused.");
  text += fmt::format("opforge_refused_compilations {}\n", sealed_misses().size());
  return text + "# EOF\n";
}

}  // namespace opforge
