// The pack: one signed file with the artifacts, launch records and dispatch tables of many
// operators and targets.
//
// Layout (little-endian), nothing between the parts but zero padding:
//   header    256 bytes: magic, schema version, opforge version, file size, place and SHA-256 of
//   the root, public key and
//             Ed25519 signature (artifact/pack_format.hpp)
//   sections  one FlatBuffer for each operator, 64-byte aligned
//   blobs     code bytes, each 64-byte aligned, zstd where that saves a tenth; equal code is stored
//   once root      FlatBuffer: place, size and SHA-256 of each section, place of the blob area
// The signature covers the header's schema version and the root's digest; the root holds the digest
// of each section, and a section the digest of each of its blobs. So opening reads and checks the
// header and the root only, a section when its operator is first used, a blob before its code is
// used: each is copied first and checked after, since the file can be cut or changed under us. The
// same contents give the same bytes, whatever their order.
//
// Attestations. Only those whose own signature is right get into a pack (write_pack,
// merge_attestations). The signer of a pack answers for its contents, so those of a pack that is
// signed by a trusted key are used as they are; of an unsigned pack only those whose signature is
// right and by a trusted key, others are dropped with a logged reason. verify_all() checks every
// one.
#pragma once

#include <memory>
#include <span>
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
  std::string opforge_version;  // of the builder
  std::string signer;           // public key, hex; empty: unsigned
  std::vector<PackOperator> operators;
  std::uint64_t blob_count = 0, blob_bytes = 0, file_bytes = 0;  // blob_bytes: as stored
  Digest root_digest;  // of everything that the pack holds; the same for packs that differ in their
                       // signature only
};

class Pack : public ArtifactSource {
 public:
  // kNotFound, kIo, kCorrupt (foreign, cut short, flipped), kIncompatible (schema), kUntrusted
  // (unknown signer, or unsigned unless trust.allow_unsigned; a signed pack whose root was altered
  // is refused always).
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
  struct Code {
    Digest digest;
    std::string bytes;
  };
  std::vector<OperatorSection> sections;
  std::vector<Code> codes;
  std::string opforge_version;  // of the builder; empty: this one
};

// The key that a pack says it is signed by (empty: unsigned), from its header alone: nothing is
// checked yet.
Result<std::string> pack_signer(const Path& path);

// Read everything back, for merge, diff, attest, sign.
Result<PackContents> read_pack(Pack& pack);

// Canonical order, deterministic bytes, published whole. A null key gives an unsigned pack. Exact
// duplicates are dropped, as is code that no artifact uses. kInvalidArgument: an operator twice, a
// variant twice with different artifacts, code that is missing or does not match its digest;
// kUntrusted: an attestation whose signature is wrong; kIo: read-only, full disk.
Status write_pack(const Path& path, PackContents contents, const SigningKey* key);
// The bytes that write_pack() would write.
Result<std::string> pack_bytes(PackContents contents, const SigningKey* key);

// Add attestations whose signer is trusted and whose signature is right (others: kUntrusted).
// Returns how many were new. Those of code that the pack does not hold are left out; kNotFound when
// that is all of them.
Result<std::size_t> merge_attestations(PackContents& contents,
                                       std::span<const Attestation> attestations,
                                       const Trust& trust);

// An attestation file: JSON, one array.
Result<std::vector<Attestation>> read_attestations(const Path& path);
Result<std::vector<Attestation>> attestations_from_json(std::string_view json);
Status write_attestations(const Path& path, std::span<const Attestation> attestations);
void sign_attestation(Attestation& attestation, const SigningKey& key);
bool attestation_signature_ok(const Attestation& attestation);

}  // namespace opforge
