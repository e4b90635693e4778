// A variant compiled for a target: code bytes, launch record, digests. Immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "contract/precondition.hpp"
#include "operator/launch.hpp"
#include "operator/signature.hpp"
#include "target/target.hpp"

namespace opforge {

// A kernel with its tunables, specialisations, dtypes and baked attributes fixed, for one target.
struct Variant {
  std::string op;
  std::string kernel;  // kernel id
  std::string backend;
  Tier tier = Tier::kFast;
  std::string target;  // "sm_90a"
  DTypeCombo dtypes;
  ValueMap values;  // tunables and specialisations, by name (integers)
  ValueMap baked;   // baked attributes
};
// "rms_norm.cuda.row{T=bf16,W=bf16}[THREADS=256,VEC=8]@sm_90a": for people; unique within an
// operator.
std::string to_string(const Variant& variant);

enum class CodeKind : std::uint8_t { kElfShared, kCubin, kPtx, kOpenClBinary, kHsaco };
std::string_view code_kind_name(CodeKind kind);

// Which compiler made it. A foreign toolkit major is a miss or a named refusal.
struct ToolchainStamp {
  std::string name;     // "nvrtc", "gxx"
  std::string version;  // "13.0"
  Digest digest;        // of what really compiles
};

struct Resources {
  std::int64_t registers = 0, shared_bytes = 0, local_bytes = 0, code_bytes = 0;
};

struct Artifact {
  Variant variant;
  LaunchRecord launch;
  std::map<std::string, std::string> symbols;  // entry of a launch step -> symbol in the code
  std::vector<Precondition> preconditions;
  CodeKind kind = CodeKind::kElfShared;
  Digest code_key;     // source + toolchain + target
  Digest code_digest;  // of the code bytes
  Digest proof_key;    // the declaration's meaning + reference + suite
  ToolchainStamp toolchain;
  Resources resources;
  int min_driver = 0;  // 12000, 13000; 0 for CPU code
  // Tunable defaults, so that an untuned shape finds its default variant: name -> expr, values
  // ascending.
  struct Default {
    std::string name;
    std::string initial;
    std::vector<std::int64_t> values;
    bool specialisation = false;
    bool changes_bits = false;
  };
  std::vector<Default> defaults;
};

// Evidence that code met a tier on a device model. Detached: made where the device is, merged into
// packs.
struct Attestation {
  Digest code_digest;
  Digest proof_key;
  std::string op, variant;  // for people
  std::string device_model;
  int driver_version = 0;   // set only for code that the driver compiles (PTX)
  Tier tier = Tier::kFast;  // the strictest tier that was proved
  bool passed = false;
  double worst_error_over_bound = 0;
  std::int64_t cases = 0;
  std::string suite_version;
  std::string date;       // UTC, ISO 8601
  std::string signer;     // public key, hex
  std::string signature;  // Ed25519 over attestation_message(), hex
};
std::string attestation_message(const Attestation& attestation);  // canonical bytes that are signed

// A measured choice: for this shape on this device model, this variant was the fastest that is
// right.
struct TableEntry {
  DTypeCombo dtypes;
  ValueMap dims;
  ValueMap attributes;  // all of them
  std::string
      layout;  // layout class of the call (runtime/dispatch: contiguous, strided, alignment)
  std::string device_model;
  std::string target;
  Tier contract = Tier::kFast;
  Digest code_key;  // of the chosen variant
  double median_us = 0, baseline_us = 0;
};

// All that a process knows of one operator from one source of artifacts.
struct OperatorSection {
  Signature signature;
  std::string formula;
  std::vector<Artifact> artifacts;
  std::vector<TableEntry> table;
  std::vector<Attestation> attestations;
};

// Equal in every stored field.
bool same_signature(const Signature& a, const Signature& b);
bool same_artifact(const Artifact& a, const Artifact& b);

// Where artifacts come from: a pack, or in development mode the forge.
class ArtifactSource {
 public:
  virtual ~ArtifactSource() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> operators() const = 0;
  // kNotFound when this source has no such operator; kCorrupt for damaged bytes. Thread-safe;
  // loaded once.
  virtual Result<std::shared_ptr<const OperatorSection>> section(std::string_view op) = 0;
  // Code bytes, digest already checked.
  virtual Result<std::string> code(const Artifact& artifact) = 0;
};

}  // namespace opforge
