// Counters that operators of a service watch: fallbacks, unavailable calls, unproved entries.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/tier.hpp"

namespace opforge {

struct FallbackCount {
  std::string op;
  Contract asked;
  Tier used;
  std::uint64_t count;
};
struct NamedCount {
  std::string op, name;
  std::uint64_t count;
};  // name: "unavailable", "unproved", "reference", ...

void count_fallback(std::string_view op, Contract asked, Tier used);
void count_event(std::string_view op, std::string_view name);
std::vector<FallbackCount> fallback_counts();
std::vector<NamedCount> event_counts();
void reset_counts();
// Called for each counted fallback, outside locks; an empty function removes it.
void set_fallback_hook(std::function<void(std::string_view op, Contract asked, Tier used)> hook);
std::string metrics_text();  // OpenMetrics

}  // namespace opforge
