#include "forge/tune.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

Result<TuneRequest> tune_request(const TuneJob& job, Store& store) {
  std::string why_not;
  TuneRequest request;
  const ShapeRequest shape{job.shape.dims, job.shape.attributes, job.shape.dtypes};
  std::optional<Variant> baseline;
  for (const Target& target : native_targets(job.device)) {
    for (const KernelDecl* kernel : kernels_for(job, why_not)) {
      if (Support support = compiles_for(*job.op, *kernel, job.shape.dtypes, target); !support) {
        why_not += "; " + support.reason();
        continue;
      }
      OPFORGE_ASSIGN(auto space, variant_space(*job.op, *kernel, shape, target));
      OPFORGE_ASSIGN(space, admitted_variants(*job.op, *kernel, shape, job.device, std::move(space)));
      if (!baseline) {
        auto variant = default_variant(*job.op, *kernel, shape, target, job.device);
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
