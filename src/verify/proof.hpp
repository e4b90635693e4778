// Proof of a tier: the suites' verdict as an attestation.
#pragma once

#include "verify/suite.hpp"

namespace opforge {

struct Proof {
  Attestation attestation;  // unsigned: the caller signs it (artifact/pack.hpp)
  SuiteReport report;       // of the strictest tier that was tried
};

// Runs the suites for the tier that the artifact claims, and for looser ones while they fail: the
// attestation holds the strictest tier that passed, or passed = false. `date` goes into the
// attestation as it is: give utc_now(), or nothing where the same inputs must give the same bytes.
// Errors as run_suites().
Result<Proof> prove(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                    SuiteOptions options, std::string date = {});
std::string utc_now();  // "2025-01-31T12:00:00Z"

// Static gates for DETERMINISTIC: no device property in any expression of the launch record, batch
// dims only in the grid, bounds and addresses, no tunable that changes bits away from its declared
// value, no atomics in the kernel's sources (where they are at hand) or in PTX. Names what is
// wrong.
Status deterministic_gates(const Operator& op, const Artifact& artifact,
                           std::string_view code_bytes);

}  // namespace opforge
