#include "forge/attest.hpp"

#include <fmt/format.h>

#include "artifact/pack.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "verify/proof.hpp"

namespace opforge {
namespace {

Path kept_at(const Store& store, const Artifact& artifact, const DeviceInfo& device, const SigningKey& key) {
  if (store.root().empty()) return {};
  const Digest name = Fingerprint()
                          .add("code", artifact.code_digest)
                          .add("proof", artifact.proof_key)
                          .add("device", device.model)
                          .add("signer", key.public_hex())
                          .finish();
  return store.root() / "v1" / "attestations" / (name.hex() + ".json");
}

bool is_for(const Attestation& attestation, const Artifact& artifact, const DeviceInfo& device, const SigningKey& key) {
  return attestation.code_digest == artifact.code_digest && attestation.proof_key == artifact.proof_key &&
         attestation.device_model == device.model && attestation.signer == key.public_hex() &&
         attestation_signature_ok(attestation);
}

}  // namespace

Result<Attestation> attest_here(const Operator& op, const Store::Loaded& code, const DeviceInfo& device, const Store& store,
                                const SigningKey& key, const std::function<bool()>& cancelled) {
  const Path file = kept_at(store, code.artifact, device, key);
  if (!file.empty()) {
    if (auto kept = read_attestations(file); kept && kept->size() == 1 && is_for(kept->front(), code.artifact, device, key)) {
      return kept->front();
    }
  }
  SuiteOptions options;
  options.tier = code.artifact.variant.tier;
  options.cancelled = cancelled;
  OPFORGE_ASSIGN(Proof proof, prove(op, code, device, options));
  Attestation attestation = std::move(proof.attestation);
  attestation.date.clear();
  sign_attestation(attestation, key);
  // Failing to keep it costs time only. Failed proofs are not kept: they are shown again after a mend of the machine.
  if (!file.empty() && attestation.passed) {
    Status kept = make_dirs(file.parent_path());
    if (kept) kept = write_attestations(file, std::span(&attestation, 1));
    if (!kept) log(LogLevel::kInfo, "forge/attest", kept.error().message);
  }
  return attestation;
}

}  // namespace opforge
