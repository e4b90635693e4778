// The ladder: which artifact serves a call, and why each other one does not. Pure: reads a view,
// launches and loads nothing.
//
//   1. a backend named in the call: strict
//   2. a backend forced for the process: best effort
//   3. the fastest measured variant whose guards hold: of exactly this shape, else of the nearest
//   measured one
//   4. the operator's own priority: backend, then the loosest tier, then the default variant
//   5. the reference
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "contract/precondition.hpp"
#include "runtime/operator_view.hpp"
#include "runtime/plan.hpp"
#include "runtime/runtime.hpp"

namespace opforge {

class Evaluator;

// What is asked. Everything is a reference into the caller's frame.
struct Question {
  const OperatorView& view;
  const BoundCall& call;
  const CallOptions& options;
  Contract asked;
  const DeviceInfo& device;  // of the tensors
  const DeviceInfo& host;    // where references run
  std::string_view forced;   // backend forced for the process; empty: none
  bool development = false;
  bool sealed = false;
  bool capturing = false;
};

// How far an artifact got. Ordered: a later stage is nearer to serving the call.
enum class Stage : std::uint8_t {
  kForeign,
  kDevice,
  kDTypes,
  kAttributes,
  kTier,
  kBitClass,
  kGuards,
  kProof,
  kPrecondition,
  kPlan,
  kEligible,
};

struct Verdict {
  Stage stage = Stage::kForeign;
  std::string reason;     // why not; empty when eligible
  bool unproved = false;  // eligible, for FAST only
};

struct Choice {
  std::size_t artifact = 0;  // index in view.artifacts
  Grade grade = Grade::kDefault;
  std::string why;
  double median_us = 0;   // of the table entry that chose it
  bool fallback = false;  // stricter than asked, because nothing of the asked tier is eligible
  bool unproved = false;
  bool staged = false;           // the reference for tensors of a device
  bool forced_unserved = false;  // a backend is forced but cannot serve this call
};

// Judges every artifact once; choose() may be asked again after reject().
class Dispatch {
 public:
  explicit Dispatch(const Question& question);

  // The choice, or nothing when no rung has one.
  std::optional<Choice> choose() const;
  // It was chosen, but its plan cannot be made: `reason`.
  void reject(std::size_t artifact, std::string reason);

  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  // Why choose() gave nothing: a value (the caller routes elsewhere) or an error.
  struct Refusal {
    std::optional<Unavailable> unavailable;
    std::optional<Error> error;
  };
  Refusal refusal() const;

 private:
  struct BitClass {
    std::string kernel, target, why_none;
  };
  Verdict judge(const OfferedArtifact& offered, Evaluator& evaluator) const;
  BitClass find_bit_class() const;
  Verdict judge_bit_class(const OfferedArtifact& offered, Evaluator& evaluator) const;
  std::optional<Choice> measured(std::string_view backend) const;
  std::optional<Choice> by_priority(std::string_view backend) const;
  std::optional<Choice> reference() const;
  std::optional<Choice> finish(std::optional<Choice> choice) const;
  // Kernels of one section share their defaults, which are evaluated once for a call.
  const Result<ValueMap>& defaults_of(const OfferedArtifact& offered, Evaluator& evaluator) const;
  bool admits(std::size_t artifact, std::string_view backend) const;
  std::string call_text() const;
  std::string nearest_text() const;

  const Question& question_;
  BitClass bit_class_;
  std::vector<Verdict> verdicts_;
  mutable std::map<std::tuple<std::size_t, std::string_view, ValueMap>, Result<ValueMap>> defaults_;
};

// Order of backends: the signature's own list, then the others by name. Smaller is preferred.
std::size_t backend_rank(const Signature& signature, std::string_view backend,
                         std::span<const std::string> others);

// The layout class of a call, as tables record it: for each tensor "c" (contiguous), "r" (rows
// contiguous), "s" (strided) or "-" (absent), and "16" when its data is aligned to 16 bytes, else
// "1": "c16,c16,r1".
std::string layout_class(const BoundCall& call);

// Defaults of an artifact's tunables at a call; specialisations as the variant has them. Later
// defaults may use earlier ones.
Result<ValueMap> default_values(const Artifact& artifact, Evaluator& evaluator);

// Is there a passing attestation of `artifact` for this device at the asked tier or a stricter one?
bool is_proved(const OfferedArtifact& offered, const DeviceInfo& device, Contract asked);

// "norm.rms_norm(x bf16[1,4096], ...; eps=1e-06)", for messages.
std::string describe_call(const Signature& signature, const BoundCall& call);

}  // namespace opforge
