// Tuning records: every trial, failures too, and every choice, in SQLite in the local state folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "tune/trial.hpp"

namespace opforge {

// Empty fields match everything.
struct RecordFilter {
  std::string op, target, device_model;
};

// One database. Several processes and threads may use it at once (WAL, busy time-out). Functions
// are thread-safe.
class Records {
 public:
  // `file` is made with its folder (0700) when absent, and brought to the current schema when
  // older. An empty path: in memory only. kIncompatible for a newer schema, kCorrupt when it is no
  // database; both name the file. Never put it on a network file system: WAL does not work there.
  static Result<Records> open(const Path& file);
  // <state>/tune.db; an empty folder gives records in memory.
  static Result<Records> open_in(const Path& state_folder);
  Records(Records&&) noexcept;
  Records& operator=(Records&&) noexcept;
  ~Records();
  const Path& file() const;  // empty: in memory

  Status add(const TuneContext& context, const TrialRecord& trial);
  // The latest trial of each code key in this context, oldest first.
  Result<std::vector<TrialRecord>> trials(const TuneContext& context) const;

  Status choose(const ChoiceRecord& choice);  // replaces an earlier one of the same context
  Result<std::optional<ChoiceRecord>> choice(const TuneContext& context) const;
  Result<std::vector<ChoiceRecord>> choices(
      const RecordFilter& filter = {}) const;  // by operator, dims, device

  // Contexts with trials or choices.
  struct Listed {
    TuneContext context;
    std::int64_t trials = 0, failures = 0;
    bool chosen = false;
    std::int64_t last_at = 0;
  };
  Result<std::vector<Listed>> list(const RecordFilter& filter = {}) const;
  // Returns how many contexts were removed, with all their trials and choices.
  Result<std::size_t> clear(const RecordFilter& filter = {});

  // JSON lines: a heading, then one trial or choice a line.
  Result<std::string> export_json(const RecordFilter& filter = {}) const;
  // Adds what is not yet here; of two choices for one context the later one stays. Returns how many
  // records were new. All or nothing: kCorrupt names the line.
  Result<std::size_t> import_json(std::string_view text);
  // The same from another database, which is not changed.
  Result<std::size_t> merge(const Path& other);

 private:
  struct State;
  explicit Records(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace opforge
