// Attestations that a build makes: proved here once for each {code, proof key, device model}, then kept in the store.
#pragma once

#include <functional>

#include "artifact/keys.hpp"
#include "artifact/store.hpp"
#include "operator/operator.hpp"

namespace opforge {

// Signed by `key`. Kept at <store>/v1/attestations/ and taken from there when it is for the same code, proof key, device
// model and signer and its signature is right. It carries no date, so that the same inputs give the same pack.
Result<Attestation> attest_here(const Operator& op, const Store::Loaded& code, const DeviceInfo& device, const Store& store,
                                const SigningKey& key, const std::function<bool()>& cancelled);

}  // namespace opforge
