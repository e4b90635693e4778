// Judging candidates: what each artifact lacks for this call.
#include "runtime/dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/text.hpp"
#include "operator/kernel.hpp"
#include "runtime/evaluate.hpp"
#include "runtime/plan_builder.hpp"

namespace opforge {
namespace {

bool is_reference(const OfferedArtifact& offered) {
  return offered.artifact->variant.backend == kReferenceBackend;
}

Verdict no(Stage stage, std::string reason) { return {stage, std::move(reason), false}; }

bool same_dtypes(const DTypeCombo& offered, const DTypeCombo& asked) {
  return offered.empty() || offered == asked;
}

// Baked attributes of the code that differ from the call's, as text; empty when none does.
std::string baked_difference(const ValueMap& baked, const ValueMap& attributes) {
  for (const auto& [name, value] : baked) {
    const auto found = attributes.find(name);
    if (found == attributes.end())
      return fmt::format("it bakes in {}, which the call does not have", name);
    if (found->second == value) continue;
    return fmt::format("{}={} is compiled in, the call has {}", name, to_string(value),
                       to_string(found->second));
  }
  return {};
}

// The most special target first: "a" suffix, then the higher architecture, machine code before PTX.
bool more_special(const Target& a, const Target& b) {
  return std::tuple(!a.ptx, a.arch, a.arch_specific) > std::tuple(!b.ptx, b.arch, b.arch_specific);
}

}  // namespace

std::size_t backend_rank(const Signature& signature, std::string_view backend,
                         std::span<const std::string> others) {
  const auto& order = signature.backend_priority;
  const auto listed = std::find(order.begin(), order.end(), backend);
  if (listed != order.end()) return static_cast<std::size_t>(listed - order.begin());
  const auto other = std::find(others.begin(), others.end(), backend);
  return order.size() + static_cast<std::size_t>(other - others.begin());
}

std::string layout_class(const BoundCall& call) {
  std::string text;
  for (const TensorView& view : call.tensors) {
    if (!text.empty()) text += ',';
    if (!view.present()) {
      text += '-';
      continue;
    }
    const bool rows =
        view.rank == 0 || view.dims[view.rank - 1] <= 1 || view.strides[view.rank - 1] == 1;
    text += view.is_contiguous() ? 'c' : rows ? 'r' : 's';
    text += reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 ? "16" : "1";
  }
  return text;
}

static ValueMap specialisations_of(const Artifact& artifact) {
  ValueMap values;
  for (const Artifact::Default& tunable : artifact.defaults) {
    const auto own = artifact.variant.values.find(tunable.name);
    if (tunable.specialisation && own != artifact.variant.values.end()) values.insert(*own);
  }
  return values;
}

Result<ValueMap> default_values(const Artifact& artifact, Evaluator& evaluator) {
  // A default may depend on the specialisation that this variant was built for.
  ValueMap values;
  for (const auto& [name, value] : specialisations_of(artifact)) values.emplace(name, value);
  evaluator.use_values(&values);
  const auto lookup = [&evaluator](std::string_view symbol) { return evaluator.find(symbol); };
  for (const Artifact::Default& tunable : artifact.defaults) {
    if (tunable.specialisation || tunable.values.empty()) continue;
    auto value = initial_value(tunable.initial, tunable.values, lookup);
    if (!value) {
      evaluator.use_values(nullptr);
      return fail(std::move(value.error()));
    }
    values.emplace(tunable.name, *value);
  }
  evaluator.use_values(nullptr);
  return values;
}

bool is_proved(const OfferedArtifact& offered, const DeviceInfo& device, Contract asked) {
  // PTX became code in the driver that was there: another one may compile it differently.
  const bool driver_compiles = offered.artifact->kind == CodeKind::kPtx;
  for (const Attestation* proof : offered.proofs) {
    if (proof->device_model != device.model || !satisfies(proof->tier, asked)) continue;
    if (!driver_compiles || proof->driver_version == device.driver_version) return true;
  }
  return false;
}

std::string describe_call(const Signature& signature, const BoundCall& call) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    if (call.tensors[i].present())
      parts.push_back(signature.tensors[i].name + " " + describe(call.tensors[i]));
  }
  std::string text = fmt::format("{}({}", signature.name, join(parts, ", "));
  const char* separator = "; ";
  for (const auto& [name, value] : call.attributes) {
    text += fmt::format("{}{}={}", separator, name, to_string(value));
    separator = ", ";
  }
  return text + ")";
}

Dispatch::Dispatch(const Question& question) : question_(question) {
  if (question.asked == Tier::kDeterministic) bit_class_ = find_bit_class();
  const Signature& signature = question.view.signature();
  Evaluator device(signature, question.call, question.device);
  Evaluator host(signature, question.call, question.host);
  verdicts_.reserve(question.view.artifacts.size());
  for (const OfferedArtifact& offered : question.view.artifacts) {
    verdicts_.push_back(judge(offered, is_reference(offered) ? host : device));
  }
}

const Result<ValueMap>& Dispatch::defaults_of(const OfferedArtifact& offered,
                                              Evaluator& evaluator) const {
  const auto key = std::tuple(offered.section, std::string_view(offered.artifact->variant.kernel),
                              specialisations_of(*offered.artifact));
  if (const auto found = defaults_.find(key); found != defaults_.end()) return found->second;
  return defaults_.emplace(key, default_values(*offered.artifact, evaluator)).first->second;
}

void Dispatch::reject(std::size_t artifact, std::string reason) {
  verdicts_[artifact] = no(Stage::kPlan, std::move(reason));
}

Verdict Dispatch::judge(const OfferedArtifact& offered, Evaluator& evaluator) const {
  const Artifact& artifact = *offered.artifact;
  const CallOptions& options = question_.options;
  if (!offered.foreign.empty()) return no(Stage::kForeign, offered.foreign);
  const bool reference = is_reference(offered);
  const bool away = reference && question_.device.device.kind != DeviceKind::kCpu;
  if (away && !question_.development) {
    return no(
        Stage::kDevice,
        fmt::format(
            "the tensors are on {}: references copy them to the host in development mode only",
            device_name(question_.device.device)));
  }
  const DeviceInfo& device = reference ? question_.host : question_.device;
  if (const Support runs = runs_on(offered.target, device, options.allow_ptx && !question_.sealed);
      !runs) {
    return no(Stage::kDevice, runs.reason());
  }
  if (artifact.min_driver > device.driver_version) {
    return no(Stage::kDevice,
              fmt::format("needs driver {} or later, {} has {}", artifact.min_driver,
                          device_name(device.device), device.driver_version));
  }
  if (!same_dtypes(artifact.variant.dtypes, question_.call.dtypes)) {
    return no(Stage::kDTypes,
              fmt::format("built for {}, the call has {}", to_string(artifact.variant.dtypes),
                          to_string(question_.call.dtypes)));
  }
  if (std::string differs = baked_difference(artifact.variant.baked, question_.call.attributes);
      !differs.empty()) {
    return no(Stage::kAttributes, std::move(differs));
  }
  if (!satisfies(artifact.variant.tier, question_.asked)) {
    return no(Stage::kTier, fmt::format("offers {}, {} is asked", tier_name(artifact.variant.tier),
                                        tier_name(question_.asked)));
  }
  if (question_.asked == Tier::kDeterministic) {
    if (Verdict verdict = judge_bit_class(offered, evaluator); verdict.stage != Stage::kEligible)
      return verdict;
  }
  // A call that launches nothing meets every guard.
  if (!outputs_are_empty(question_.view.signature(), question_.call)) {
    evaluator.use_values(&artifact.variant.values);
    const Support guards = check_guards(artifact.launch, evaluator);
    evaluator.use_values(nullptr);
    if (!guards) return no(Stage::kGuards, guards.reason());
  }
  bool unproved = false;
  if (!reference && options.proof != ProofPolicy::kOff &&
      !is_proved(offered, device, question_.asked)) {
    unproved = true;
    if (options.proof == ProofPolicy::kRequired || question_.asked != Tier::kFast) {
      return no(
          Stage::kProof,
          fmt::format(
              "not proved at {} on {}: run `opforge verify --pack PACK --attest FILE` there, then "
              "`opforge pack attest PACK FILE`",
              tier_name(question_.asked),
              device.model.empty() ? device_name(device.device) : device.model));
    }
  }
  CallerFacts facts = options.facts;
  facts.capturing = question_.capturing;
  facts.user = nullptr;  // asked once for the call, not for each candidate
  if (const Support met =
          check_preconditions(artifact.preconditions, question_.call.tensors, facts);
      !met) {
    return no(Stage::kPrecondition, met.reason());
  }
  if (away && question_.capturing) {
    return no(Stage::kPrecondition,
              "the stream is being captured, and the reference on the host waits for it");
  }
  return {Stage::kEligible, {}, unproved};
}

// The declaration fixes it: the kernel of the first backend in priority order that has one for
// devices of this kind, and the most special of its targets that runs here. An artifact that is
// missing from the packs does not move the class.
Dispatch::BitClass Dispatch::find_bit_class() const {
  const Signature& signature = question_.view.signature();
  std::vector<std::string> others;
  for (const auto& [backend, kernel] : signature.deterministic_kernel) others.push_back(backend);
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [backend, kernel] : signature.deterministic_kernel) {
    order.emplace_back(backend_rank(signature, backend, others), kernel);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [rank, kernel] : order) {
    const Target* best = nullptr;
    bool for_kind = false;
    for (const OfferedArtifact& offered : question_.view.artifacts) {
      if (offered.artifact->variant.kernel != kernel || !offered.foreign.empty()) continue;
      if (offered.target.device != question_.device.device.kind) continue;
      for_kind = true;
      const bool runs{runs_on(offered.target, question_.device,
                              question_.options.allow_ptx && !question_.sealed)};
      if (runs && same_dtypes(offered.artifact->variant.dtypes, question_.call.dtypes) &&
          baked_difference(offered.artifact->variant.baked, question_.call.attributes).empty() &&
          (best == nullptr || more_special(offered.target, *best))) {
        best = &offered.target;
      }
    }
    if (best != nullptr) return {kernel, best->name, {}};
    if (for_kind) return {kernel, {}, {}};
  }
  return {{},
          {},
          fmt::format("no DETERMINISTIC kernel of {} is for {} devices", signature.name,
                      device_kind_name(question_.device.device.kind))};
}

Verdict Dispatch::judge_bit_class(const OfferedArtifact& offered, Evaluator& evaluator) const {
  const Artifact& artifact = *offered.artifact;
  if (!bit_class_.why_none.empty()) return no(Stage::kTier, bit_class_.why_none);
  if (artifact.variant.kernel != bit_class_.kernel ||
      artifact.variant.target != bit_class_.target) {
    return no(Stage::kBitClass,
              fmt::format("outside the bit class: {} on {} fixes the bits here", bit_class_.kernel,
                          bit_class_.target.empty() ? "another target" : bit_class_.target));
  }
  const auto& defaults = defaults_of(offered, evaluator);
  if (!defaults) return no(Stage::kBitClass, defaults.error().message);
  for (const Artifact::Default& tunable : artifact.defaults) {
    if (!tunable.changes_bits) continue;
    const auto fixed = defaults->find(tunable.name);
    const auto own = artifact.variant.values.find(tunable.name);
    if (fixed == defaults->end() || own == artifact.variant.values.end() ||
        fixed->second != own->second) {
      return no(
          Stage::kBitClass,
          fmt::format("outside the bit class: {} is {}, the declaration fixes {} for these dims",
                      tunable.name,
                      own == artifact.variant.values.end() ? "absent" : to_string(own->second),
                      fixed == defaults->end() ? "nothing" : to_string(fixed->second)));
    }
  }
  return {Stage::kEligible, {}, false};
}

}  // namespace opforge
