#include "forge/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/text.hpp"
#include "forge/defaults.hpp"
#include "runtime/operator_view.hpp"

namespace opforge {
namespace {

std::size_t priority_of(const Signature& signature, const std::string& backend) {
  const auto& order = signature.backend_priority;
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), backend) - order.begin());
}

// Preferred backend first, then the loosest tier: the order in which dispatch tries what was never measured.
std::vector<const KernelDecl*> kernels_for(const TuneJob& job, std::string& why_not) {
  std::vector<const KernelDecl*> kernels;
  for (const KernelDecl& kernel : job.op->kernels) {
    if (kernel.backend == kReferenceBackend) continue;
    if (!job.backends.empty() && std::find(job.backends.begin(), job.backends.end(), kernel.backend) == job.backends.end()) continue;
    if (!satisfies(kernel.tier, job.contract)) {
      why_not += fmt::format("; {} offers {} only", kernel.id, tier_name(kernel.tier));
      continue;
    }
    kernels.push_back(&kernel);
  }
  std::stable_sort(kernels.begin(), kernels.end(), [&](const KernelDecl* a, const KernelDecl* b) {
    const auto rank = [&](const KernelDecl* kernel) {
      return std::pair(priority_of(job.op->signature, kernel->backend), static_cast<int>(kernel->tier));
    };
    return rank(a) < rank(b);
  });
  return kernels;
}

// The artifacts of a pack by the name of their variant.
using Packed = std::map<std::string, Artifact, std::less<>>;

Result<Packed> packed_artifacts(const TuneJob& job) {
  OPFORGE_ASSIGN(const auto section, job.pack->section(job.op->signature.name));
  Packed packed;
  for (const Artifact& artifact : section->artifacts) packed.emplace(to_string(artifact.variant), artifact);
  return packed;
}

// Those of `space` that the pack holds and whose own guards hold: what a DSL was promised is in the record of its code only.
Result<std::vector<Variant>> packed_variants(const TuneJob& job, const KernelDecl& kernel, const ShapeRequest& shape, const Packed& packed,
                                             const std::vector<Variant>& space) {
  std::vector<Variant> found;
  for (const Variant& variant : space) {
    const auto artifact = packed.find(to_string(variant));
    if (artifact == packed.end()) continue;
    KernelDecl compiled = kernel;
    compiled.launch = artifact->second.launch;
    OPFORGE_ASSIGN(auto admitted, admitted_variants(*job.op, compiled, shape, job.device, {variant}));
    std::move(admitted.begin(), admitted.end(), std::back_inserter(found));
  }
  return found;
}

void hook_pack(TuneRequest& request, const TuneJob& job, Packed packed) {
  const auto shared = std::make_shared<const Packed>(std::move(packed));
  const auto find = [shared](const Variant& variant) -> Result<const Artifact*> {
    const auto found = shared->find(to_string(variant));
    if (found != shared->end()) return &found->second;
    return fail(Code::kUnavailable, fmt::format("{} is not in the pack of candidates", to_string(variant)), "forge/tune");
  };
  request.hooks.key = [find](const Variant& variant) -> Result<Digest> {
    OPFORGE_ASSIGN(const Artifact* artifact, find(variant));
    return artifact->code_key;
  };
  request.hooks.obtain = [find, pack = job.pack](const Variant& variant, bool* compiled) -> Result<BuiltCode> {
    if (compiled != nullptr) *compiled = false;
    OPFORGE_ASSIGN(const Artifact* artifact, find(variant));
    OPFORGE_ASSIGN(std::string code, pack->code(*artifact));
    return BuiltCode{*artifact, std::move(code)};
  };
}

}  // namespace

Result<TuneRequest> tune_request(const TuneJob& job, Store& store) {
  std::string why_not;
  TuneRequest request;
  const ShapeRequest shape{job.shape.dims, job.shape.attributes, job.shape.dtypes};
  std::optional<Variant> baseline;
  Packed packed;
  if (job.pack != nullptr) {
    OPFORGE_ASSIGN(packed, packed_artifacts(job));
  }
  for (const Target& target : native_targets(job.device)) {
    for (const KernelDecl* kernel : kernels_for(job, why_not)) {
      if (Support support = compiles_for(*job.op, *kernel, job.shape.dtypes, target); !support) {
        why_not += "; " + support.reason();
        continue;
      }
      OPFORGE_ASSIGN(auto space, variant_space(*job.op, *kernel, shape, target));
      OPFORGE_ASSIGN(space, admitted_variants(*job.op, *kernel, shape, job.device, std::move(space)));
      if (job.pack != nullptr) {
        OPFORGE_ASSIGN(space, packed_variants(job, *kernel, shape, packed, space));
        if (space.empty()) why_not += fmt::format("; the pack holds no {} for {} and this shape", kernel->id, target.name);
        if (space.empty()) continue;
      }
      if (!baseline) {
        auto variant = default_variant(*job.op, *kernel, shape, target, job.device);
        if (variant && job.pack != nullptr && std::none_of(space.begin(), space.end(), [&](const Variant& each) {
              return to_string(each) == to_string(*variant);
            })) {
          variant = fail(Code::kNotFound, fmt::format("the pack lacks {}, which serves without a measurement: build it with "
                                                      "--candidates and this shape", to_string(*variant)));
        }
        if (variant) baseline = std::move(*variant);
        if (!variant) why_not += "; " + variant.error().message;
      }
      std::move(space.begin(), space.end(), std::back_inserter(request.space));
    }
    // Code of one target competes; the most specific that anything compiles for.
    if (baseline) {
      request.target = target.name;
      break;
    }
    request.space.clear();
  }
  if (!baseline) {
    return fail(Code::kUnavailable, fmt::format("{} {}: no kernel can be tuned for {} on {}{}", job.op->signature.name, to_string(job.shape.dtypes),
                                                tier_name(job.contract), device_name(job.device.device), why_not), "forge/tune");
  }
  request.op = job.op;
  request.shape = job.shape;
  request.contract = job.contract;
  request.device = job.device;
  request.baseline = std::move(*baseline);
  if (job.pack != nullptr) {
    hook_pack(request, job, std::move(packed));
    return request;
  }
  request.hooks.key = [op = job.op](const Variant& variant) -> Result<Digest> {
    OPFORGE_ASSIGN(const KernelDecl* kernel, kernel_of(*op, variant));
    return variant_key(*op, *kernel, variant);
  };
  request.hooks.obtain = [op = job.op, &store](const Variant& variant, bool* compiled) -> Result<BuiltCode> {
    OPFORGE_ASSIGN(const KernelDecl* kernel, kernel_of(*op, variant));
    return obtain(*op, *kernel, variant, store, compiled);
  };
  return request;
}

}  // namespace opforge
