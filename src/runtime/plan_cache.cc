#include "runtime/plan_cache.hpp"

#include <algorithm>

namespace opforge {
namespace {
std::atomic<std::uint64_t> next_table{1};
}

PlanTable::PlanTable() : id_(next_table.fetch_add(1)) {}

std::shared_ptr<const CachedPlan> PlanTable::find(const CallKey& key, std::uint64_t generation) {
  Shard& shard = shards_[(key.hash() >> 32) % kShards];
  std::lock_guard lock(shard.mutex);
  const auto found = shard.slots.find(key.hash());
  if (found == shard.slots.end()) return nullptr;
  const auto& entry = found->second.entry;
  if (entry->generation != generation || !key.equals(entry->key)) return nullptr;
  found->second.last_use = ++shard.clock;
  return entry;
}

void PlanTable::insert(std::shared_ptr<const CachedPlan> entry) {
  Shard& shard = shards_[(entry->hash >> 32) % kShards];
  std::vector<Shard::Slot> dropped;  // destroyed outside the lock
  std::lock_guard lock(shard.mutex);
  constexpr std::size_t kMostInShard = kMostPlans / kShards;
  if (shard.slots.size() >= kMostInShard && !shard.slots.contains(entry->hash)) {
    // A quarter goes at once: the longest unused.
    std::vector<std::uint64_t> uses;
    for (const auto& [hash, slot] : shard.slots) uses.push_back(slot.last_use);
    std::nth_element(uses.begin(), uses.begin() + kMostInShard / 4, uses.end());
    const std::uint64_t oldest_kept = uses[kMostInShard / 4];
    for (auto it = shard.slots.begin(); it != shard.slots.end();) {
      if (it->second.last_use >= oldest_kept) {
        ++it;
        continue;
      }
      dropped.push_back(std::move(it->second));
      it = shard.slots.erase(it);
    }
  }
  const std::uint64_t hash = entry->hash;
  auto& slot = shard.slots[hash];
  dropped.push_back(std::move(slot));
  slot = Shard::Slot{std::move(entry), ++shard.clock};
}

std::size_t PlanTable::size() const {
  std::size_t total = 0;
  for (const Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);
    total += shard.slots.size();
  }
  return total;
}

ThreadPlans& ThreadPlans::mine() {
  thread_local ThreadPlans plans;
  return plans;
}

void ThreadPlans::remember(std::uint64_t table, std::shared_ptr<const CachedPlan> entry) {
  if (running_ != 0) return;
  auto& set = sets_[entry->hash % kSets];
  // The newest first; an older entry of the same key goes with the last way.
  std::move_backward(set.begin(), set.end() - 1, set.end());
  set[0] = Slot{table, std::move(entry)};
}

}  // namespace opforge
