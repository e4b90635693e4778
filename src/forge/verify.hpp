// Verification jobs: every kernel of operators, or every artifact of a pack, through the generic suites on a device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "artifact/pack.hpp"
#include "artifact/store.hpp"
#include "verify/proof.hpp"

namespace opforge {

struct VerifyRequest {
  std::vector<std::string> backends;  // empty: all
  std::vector<Tier> tiers;            // kernels that offer one of these; empty: all
  std::vector<DTypeCombo> dtypes;     // empty: all of the operator's
  std::string device;                 // a device's name ("cuda:1"); empty: the first that runs the code
  SuiteOptions suite;                 // tier is set for each kernel
  std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
};

enum class VerifyOutcome : std::uint8_t { kProved, kFailed, kNotRun };

struct VerifyEntry {
  std::string op, kernel, backend, variant, target, dtypes, device;
  Tier claimed = Tier::kFast;
  VerifyOutcome outcome = VerifyOutcome::kNotRun;
  std::string reason;      // kFailed: the first failure; kNotRun: why
  SuiteReport report;      // empty when not run
  Attestation attestation; // unsigned; of those that ran
};

// Compiles what the declared test cases need, each code once, for the best target of the device, and proves it. An error
// only when interrupted or when the store cannot be used; everything else is an entry.
Result<std::vector<VerifyEntry>> prove_operator(const Operator& op, Store& store, const VerifyRequest& request);

// Proves the artifacts of a pack on the devices here, with the declarations of `catalogue` (a pack carries no reference
// inputs). Artifacts whose operator is not in the catalogue, or that run on no device here, are entries with the reason.
Result<std::vector<VerifyEntry>> prove_pack(Pack& pack, const Catalogue& catalogue,
                                             const std::vector<std::string>& operators, const VerifyRequest& request);

}  // namespace opforge
