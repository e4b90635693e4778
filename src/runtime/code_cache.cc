#include "runtime/code_cache.hpp"

#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace opforge {
namespace {

using CodeId = std::tuple<Digest, const Launcher*, int>;

struct Entry {
  std::mutex
      loading;  // held while this code is loaded, so that others wait for it and not for each other
  std::shared_ptr<LoadedCode> code;
  std::uint64_t last_use = 0;
};

struct Cache {
  std::mutex mutex;
  std::map<CodeId, std::shared_ptr<Entry>> entries;
  std::set<std::shared_ptr<LoadedCode>> pinned;
  std::uint64_t clock = 0;
};

// Never destroyed: plans may outlive static destructors.
Cache& cache() {
  static Cache& instance = *new Cache;
  return instance;
}

// Take out the longest unused entries beyond the bound. They are returned, so that they unload
// outside the lock.
std::vector<std::shared_ptr<LoadedCode>> evict_locked(Cache& cache) {
  std::vector<std::shared_ptr<LoadedCode>> evicted;
  if (cache.entries.size() <= kUnusedCodeKept) return evicted;
  std::multimap<std::uint64_t, CodeId> unused;
  for (const auto& [id, entry] : cache.entries) {
    // One reference from the cache to the entry, one from the entry to the code: nobody else holds
    // it.
    if (entry.use_count() == 1 && entry->code.use_count() <= 1) unused.emplace(entry->last_use, id);
  }
  for (auto it = unused.begin();
       it != unused.end() && unused.size() - evicted.size() > kUnusedCodeKept; ++it) {
    auto found = cache.entries.find(it->second);
    evicted.push_back(std::move(found->second->code));
    cache.entries.erase(found);
  }
  return evicted;
}

}  // namespace

Result<std::shared_ptr<LoadedCode>> load_code(Launcher& launcher, const Artifact& artifact,
                                              int ordinal, bool allow_ptx,
                                              const std::function<Result<std::string>()>& bytes) {
  Cache& all = cache();
  std::shared_ptr<Entry> entry;
  std::vector<std::shared_ptr<LoadedCode>> evicted;
  {
    std::lock_guard lock(all.mutex);
    auto& slot = all.entries[CodeId{artifact.code_digest, &launcher, ordinal}];
    if (slot == nullptr) slot = std::make_shared<Entry>();
    slot->last_use = ++all.clock;
    entry = slot;
    evicted = evict_locked(all);
  }
  std::lock_guard loading(entry->loading);
  if (entry->code != nullptr) return entry->code;
  OPFORGE_ASSIGN(const std::string code, bytes());
  OPFORGE_ASSIGN(std::shared_ptr<LoadedCode> loaded,
                 launcher.load(artifact, code, ordinal, allow_ptx));
  std::lock_guard lock(all.mutex);  // eviction looks at every entry's code under this lock
  entry->code = loaded;
  return loaded;
}

bool code_is_loaded(const Launcher& launcher, const Digest& code_digest, int ordinal) {
  std::lock_guard lock(cache().mutex);
  const auto found = cache().entries.find(CodeId{code_digest, &launcher, ordinal});
  return found != cache().entries.end() && found->second->code != nullptr;
}

void pin_code(std::shared_ptr<LoadedCode> code) {
  if (code == nullptr) return;
  std::lock_guard lock(cache().mutex);
  cache().pinned.insert(std::move(code));
}

CodeCacheCounts code_cache_counts() {
  std::lock_guard lock(cache().mutex);
  CodeCacheCounts counts;
  for (const auto& [id, entry] : cache().entries) counts.loaded += entry->code != nullptr;
  counts.pinned = cache().pinned.size();
  return counts;
}

}  // namespace opforge
