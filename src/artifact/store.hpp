// The on-disk cache of artifacts: <root>/v1/<target>/<operator>/<code key>/{code, manifest.json}.
//
// Names that start with a dot are the store's own: <root>/v1/.locks, .damaged (entries set aside
// for a look), .trash, and .staging-* folders beside the entry that they will become. Many
// processes and hosts may share a root: an entry appears whole, by rename, and never changes; locks
// are for one host and only save work.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "base/files.hpp"

namespace opforge {

struct StoreEntry {
  std::string target, op;
  Digest code_key;
  std::uint64_t size_bytes = 0;
  std::int64_t age_s = 0;
  std::string variant;  // from the manifest; empty when damaged
};

class Store {
 public:
  // An empty root gives a store that finds nothing and keeps nothing (and says so once in the log).
  // A root that is a file, or cannot be made, is kIo; one that everybody may write is kUntrusted,
  // since its code runs in the process. A read-only root works for reading.
  static Result<Store> open(Path root);

  struct Loaded {
    Artifact artifact;
    std::string code;
  };
  // Absent, damaged or mismatched entries are misses; damage is logged with its reason and the
  // entry is set aside.
  std::optional<Loaded> find(const std::string& target, const std::string& op,
                             const Digest& code_key);

  // Find, or build once per machine: takes the entry's lock, looks again, calls `build`, publishes,
  // and returns what is stored. Failure to publish (read-only, full disk) is logged and the built
  // artifact is returned all the same. The code key and the code digest are filled in here. Code
  // that is empty, or an artifact of another target or operator, is an error and nothing is
  // published. `compiled` (may be null) is set to whether `build` ran.
  Result<Loaded> find_or_build(const std::string& target, const std::string& op,
                               const Digest& code_key, const std::function<Result<Loaded>()>& build,
                               bool* compiled);
  // kIo with the path and the reason; an entry that is there already is kept (the first one wins).
  Status publish(const Loaded& loaded);

  Result<std::vector<StoreEntry>> list() const;  // by target, operator, key
  // Remove entries of `target` (empty: all, with what was set aside). Returns how many entries.
  Result<std::size_t> clear(const std::string& target = {});
  // Remove entries older than `max_age_s` (< 0: any age is fine), then the oldest until the rest
  // takes at most `max_bytes`.
  Result<std::size_t> prune(std::uint64_t max_bytes, std::int64_t max_age_s);
  const Path& root() const { return root_; }

 private:
  explicit Store(Path root) : root_(std::move(root)) {}
  Path entry_path(const std::string& target, const std::string& op, const Digest& code_key) const;
  void set_aside(const Path& entry, const std::string& reason) const;
  Status remove_entry(const Path& entry);
  Path root_;
};

// The manifest of an artifact as JSON text, and back. FlatBuffers' JSON form of the same schema
// that packs use.
Result<std::string> manifest_to_json(const Artifact& artifact);
Result<Artifact> manifest_from_json(std::string_view json);
// A launch record alone, as JSON (the fixtures of the DSL probes are written so).
Result<std::string> launch_to_json(const LaunchRecord& record);
Result<LaunchRecord> launch_from_json(std::string_view json);

}  // namespace opforge
