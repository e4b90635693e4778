// Proof of a tier: the suites' verdict as an attestation.
#pragma once

#include "verify/suite.hpp"

namespace opforge {

struct Proof {
  Attestation attestation;  // unsigned: the caller signs it (artifact/pack.hpp)
  SuiteReport report;       // of the strictest tier that was tried
};

// Runs the suites for the tier that the artifact claims, and for looser ones while they fail: the attestation holds the
// strictest tier that passed, or passed = false. Static gates of DETERMINISTIC included. Errors as run_suites().
Result<Proof> prove(const Operator& op, const BuiltCode& code, const DeviceInfo& device, SuiteOptions options);

// Static gates for DETERMINISTIC: no device property in any expression of the launch record, batch dims only in the grid,
// bounds and addresses, no tunable that changes bits away from its declared value. Names what is wrong.
Status deterministic_gates(const Operator& op, const Artifact& artifact, std::string_view code_bytes);

}  // namespace opforge
