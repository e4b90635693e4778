// The build job: which variants, compile through the store, attest what this CPU can run, write the signed pack.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "artifact/pack.hpp"
#include "artifact/store.hpp"
#include "forge/compile.hpp"
#include "tune/records.hpp"
#include "verify/suite.hpp"

namespace opforge {

struct BuildRequest {
  std::vector<const Operator*> operators;
  std::vector<std::string> backends;   // empty: all
  std::vector<std::string> targets;    // names; "native": what the devices here run best
  std::vector<Tier> tiers;             // kernels that offer one of these; empty: all
  bool from_cases = false;             // the declared build cases
  std::vector<ValueMap> shapes;        // dims, beside the cases; for every operator that has these dims
  std::vector<DType> dtypes;           // combinations whose first variable has one of these; empty: all
  std::size_t jobs = 0;                // compiles at once; 0: one for each usable core
  std::size_t most_variants = 0;       // for each operator and target; 0: no limit. More is an error that says so
  bool candidates = false;             // beside the defaults, the search space of each shape, for tuning where no compiler is
  std::size_t most_candidates = 0;     // of each kernel, shape and target: a sample that has every value of every tunable
                                       // where it can; 0: the whole space. One that does not compile is skipped
  bool strict = false;                 // a skipped artifact is a failure
  bool attest = true;                  // prove CPU artifacts that this CPU can run
  Store* store = nullptr;              // required
  Records* records = nullptr;          // tuning winners and dispatch tables come from here; null: none
  const SigningKey* key = nullptr;     // signs attestations and the pack; null: unsigned, and no attestations
  Path output;
  std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
  std::function<bool()> cancelled;
};

enum class BuildOutcome : std::uint8_t { kCompiled, kLoaded, kSkipped, kFailed };
std::string_view build_outcome_name(BuildOutcome outcome);

struct BuildRow {
  std::string op, kernel, variant, target;
  BuildOutcome outcome = BuildOutcome::kFailed;
  std::string reason;       // skipped, failed: why; else what was attested
  double seconds = 0;
};

struct BuildReport {
  std::vector<BuildRow> rows;
  std::size_t compiled = 0, loaded = 0, skipped = 0, failed = 0, attested = 0, proofs_failed = 0, table_entries = 0;
  bool written = false;     // the pack; not written when something failed
  PackInfo pack;            // of the written pack
  bool ok(bool strict) const { return failed == 0 && proofs_failed == 0 && !(strict && skipped > 0) && written; }
};

// Errors only for what stops everything: no such target, nothing to build, interrupted (finished artifacts stay in the
// store), the pack cannot be written. A failed compile is a row; then no pack is written.
Result<BuildReport> build_pack(const BuildRequest& request);

}  // namespace opforge
