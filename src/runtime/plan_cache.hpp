// Plans by call key. A hit in the calling thread's own table reads one generation and writes
// nothing that is shared; behind it is a table for all threads. Both are bounded. A plan that is no
// longer in either goes when its last user does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/call_key.hpp"
#include "runtime/plan.hpp"

namespace opforge {

struct CachedPlan {
  std::vector<std::uint64_t> key;
  std::uint64_t hash = 0;
  std::uint64_t generation = 0;  // of packs and settings, when it was made
  std::shared_ptr<const Plan> plan;
  Contract asked = Tier::kFast;
  bool counted = false;  // one of the next three, or forced_unserved: calls are counted in metrics
  bool fallback = false, unproved = false, reference = false;
  bool forced_unserved = false;
};

// Shared by the threads of one runtime.
class PlanTable {
 public:
  static constexpr std::size_t kMostPlans = 4096;
  PlanTable();
  // Null when absent, or made under another generation.
  std::shared_ptr<const CachedPlan> find(const CallKey& key, std::uint64_t generation);
  void insert(std::shared_ptr<const CachedPlan> entry);
  std::size_t size() const;
  std::uint64_t id() const { return id_; }  // never used again by another table of this process

 private:
  static constexpr std::size_t kShards = 16;
  struct Shard {
    mutable std::mutex mutex;
    struct Slot {
      std::shared_ptr<const CachedPlan> entry;
      std::uint64_t last_use = 0;
    };
    std::unordered_map<std::uint64_t, Slot> slots;  // by hash; a collision replaces
    std::uint64_t clock = 0;
  };
  std::array<Shard, kShards> shards_;
  std::uint64_t id_;
};

// The calling thread's table, for all runtimes of the process.
class ThreadPlans {
 public:
  static ThreadPlans& mine();
  // Good until remember() or the end of the thread; null when absent.
  const CachedPlan* find(std::uint64_t table, const CallKey& key, std::uint64_t generation) const {
    const auto& set = sets_[key.hash() % kSets];
    for (const Slot& slot : set) {
      if (slot.table == table && slot.entry != nullptr && slot.entry->hash == key.hash() &&
          slot.entry->generation == generation && key.equals(slot.entry->key)) {
        return slot.entry.get();
      }
    }
    return nullptr;
  }
  // Does nothing while a call of this thread is running, so that what find() gave stays good under
  // nested calls.
  void remember(std::uint64_t table, std::shared_ptr<const CachedPlan> entry);

  class Running {
   public:
    explicit Running(ThreadPlans& plans) : plans_(plans) { ++plans_.running_; }
    ~Running() { --plans_.running_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    ThreadPlans& plans_;
  };

 private:
  static constexpr std::size_t kSets = 64, kWays = 2;
  struct Slot {
    std::uint64_t table = 0;
    std::shared_ptr<const CachedPlan> entry;
  };
  std::array<std::array<Slot, kWays>, kSets> sets_;
  int running_ = 0;
};

}  // namespace opforge
