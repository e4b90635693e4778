// The pack: one signed file with the artifacts, launch records and dispatch tables of many operators and targets.
//
// Layout: header {magic, format version, root offset and size, signature} | sections | blobs | root. The root (FlatBuffers)
// holds the SHA-256 of each section and blob; the Ed25519 signature is over the root. Opening checks the root only, a
// section when its operator is first used, a blob before its code is used. The same inputs give the same bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "artifact/keys.hpp"
#include "base/files.hpp"

namespace opforge {

inline constexpr int kPackSchemaVersion = 1;

struct PackOperator {
  std::string name;
  std::uint64_t section_bytes = 0;
  std::uint32_t variants = 0;
};

struct PackInfo {
  int schema_version = kPackSchemaVersion;
  std::string opforge_version;     // of the builder
  std::string signer;              // public key, hex; empty: unsigned
  std::vector<PackOperator> operators;
  std::uint64_t blob_count = 0, file_bytes = 0;
  Digest root_digest;
};

class Pack : public ArtifactSource {
 public:
  // kNotFound, kCorrupt, kIncompatible (schema), kUntrusted (unsigned or unknown signer, unless trust.allow_unsigned for
  // unsigned packs: a signed pack with an altered root is refused always).
  static Result<std::shared_ptr<Pack>> open(const Path& path, const Trust& trust);

  const PackInfo& info() const;
  std::string name() const override;
  std::vector<std::string> operators() const override;
  Result<std::shared_ptr<const OperatorSection>> section(std::string_view op) override;
  Result<std::string> code(const Artifact& artifact) override;
  // Check every section, blob and attestation signature. Errors name what is damaged.
  Status verify_all();
  ~Pack() override;

 private:
  struct State;
  explicit Pack(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct PackContents {
  struct Code { Digest digest; std::string bytes; };
  std::vector<OperatorSection> sections;
  std::vector<Code> codes;
};

// Read everything back, for merge, diff, attest, sign.
Result<PackContents> read_pack(Pack& pack);

// Canonical order, deterministic bytes. A null key gives an unsigned pack.
Status write_pack(const Path& path, PackContents contents, const SigningKey* key);

// Add attestations whose signer is trusted and whose signature is right (others: kUntrusted). Returns how many were new.
Result<std::size_t> merge_attestations(PackContents& contents, std::span<const Attestation> attestations, const Trust& trust);

// An attestation file: JSON, one array.
Result<std::vector<Attestation>> read_attestations(const Path& path);
Status write_attestations(const Path& path, std::span<const Attestation> attestations);
void sign_attestation(Attestation& attestation, const SigningKey& key);
bool attestation_signature_ok(const Attestation& attestation);

}  // namespace opforge
