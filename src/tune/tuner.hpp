// The loop: search, compile, check, measure, adopt, record.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "tune/adopt.hpp"
#include "tune/evaluator.hpp"
#include "tune/records.hpp"
#include "tune/searcher.hpp"
#include "tune/worker.hpp"

namespace opforge {

// What may be spent on one context; whichever ends first. Not given: no limit.
struct TuneBudget {
  std::optional<std::int64_t> candidates;  // tried, the baseline not counted; known ones count too
  std::optional<double> wall_s;            // the whole tune, the final included
  std::optional<double> device_s;          // that the device was held for checks and timing
};

// How code comes to be; the layers above know. Called from several threads.
struct TuneHooks {
  std::function<Result<Digest>(const Variant&)> key;  // the code key, without compiling
  std::function<Result<BuiltCode>(const Variant&, bool* compiled)> obtain;
};

struct TuneProgress {
  enum class Phase : std::uint8_t {
    kWaiting,
    kStarting,
    kBaseline,
    kSearching,
    kFinal,
    kConfirming,
    kProving
  };
  Phase phase = Phase::kSearching;
  std::int64_t tried = 0, failed = 0, known = 0;  // known: from an earlier run, counted in tried
  std::int64_t total = 0;                         // that the budget and the space allow
  double elapsed_s = 0, per_second = 0;           // candidates a second
  double best_speedup = 0;             // baseline / best candidate in the screening; 0: none yet
  std::string best;                    // variant, for people
  const TrialRecord* trial = nullptr;  // the one that has just ended; only during the call
};
std::string_view tune_phase_name(TuneProgress::Phase phase);

struct TuneRequest {
  const Operator* op = nullptr;
  BenchShape shape;
  Contract contract = Tier::kFast;
  DeviceInfo device;
  std::string target;
  std::string layout;          // empty: every tensor contiguous and aligned
  std::vector<Variant> space;  // candidates; those of a looser tier than the contract are left out
  Variant baseline;            // what serves this context without a tune; competes
  TuneHooks hooks;
  TuneBudget budget;
  std::string search = "auto";   // searcher_names()
  std::uint64_t seed = 0;        // of the search; 0: follows from the context
  std::size_t compile_jobs = 0;  // 0: one for each usable core
  CacheMode cache = CacheMode::kCold;
  bool allow_ptx = false;
  bool again = false;          // measure although a finished choice is on record
  bool prove = true;           // attest the chosen code
  Records* records = nullptr;  // null: nothing is remembered
  WorkerOptions worker;
  Evaluator* evaluator = nullptr;  // null: a WorkerEvaluator (tests give their own)
  std::function<void(const TuneProgress&)> progress;
  std::function<bool()> cancelled;  // empty: interrupted()
};

struct TuneReport {
  TuneContext context;
  ChoiceRecord choice;  // meaningful when `chosen`
  bool chosen = false;  // false: interrupted, or nothing could be measured; the default serves
  bool from_records = false;         // an earlier choice that still holds
  std::string why;                   // one line on the choice
  std::vector<TrialRecord> trials;   // the baseline first, then in order of trying
  std::optional<Decision> decision;  // of the final
  std::vector<std::string> warnings;
  std::optional<Attestation> attestation;  // of the chosen code, unsigned
  bool interrupted = false;
  std::string resume;  // interrupted: how much is kept, and that the same command goes on
  std::int64_t tried = 0, failed = 0, known = 0, compiled = 0;
  double wall_s = 0, device_s = 0;
  std::string stopped_by;  // "space", "candidates", "wall", "device", "interrupted", "search"
};

// kInvalidArgument for a budget that allows nothing, an empty space, an unknown search or a
// baseline that does not serve the contract; kUnavailable when nothing can be judged on this
// device. Failing candidates are in the report, never errors; when all fail every reason is there
// and the default stays. Tensors of the caller are never touched: workers make their own. Tunes of
// one context by several processes or threads take turns when there are records on disk: the later
// ones find the choice.
Result<TuneReport> tune(TuneRequest request);

// For people: one line for each trial that failed, grouped by reason.
std::vector<std::string> failure_lines(const TuneReport& report);

}  // namespace opforge
