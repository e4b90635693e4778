#include "forge/defaults.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/infer.hpp"
#include "runtime/evaluate.hpp"
#include "runtime/plan_builder.hpp"

namespace opforge {
namespace {

Result<BoundCall> call_of(const Operator& op, const ShapeRequest& shape, const DeviceInfo& device) {
  OPFORGE_ASSIGN(auto tensors, placeholder_tensors(op.signature, shape.dims, shape.dtypes, shape.attributes, device.device));
  return bind_call(op.signature, tensors, shape.attributes);
}

// Every tunable at its default for this call; specialisations are free.
bool is_default(const KernelDecl& kernel, const Variant& variant, Evaluator& evaluator) {
  return std::all_of(kernel.tunables.begin(), kernel.tunables.end(), [&](const Tunable& tunable) {
    if (tunable.specialisation) return true;
    const auto value = initial_value(tunable, [&](std::string_view symbol) { return evaluator.find(symbol); });
    const auto own = variant.values.find(tunable.name);
    return value && own != variant.values.end() && own->second == Value(*value);
  });
}

std::vector<std::int64_t> specialisations(const KernelDecl& kernel, const Variant& variant) {
  std::vector<std::int64_t> values;
  for (const Tunable& tunable : kernel.tunables) {
    const auto own = variant.values.find(tunable.name);
    if (tunable.specialisation && own != variant.values.end()) values.push_back(std::get<std::int64_t>(own->second));
  }
  return values;
}

}  // namespace

Result<std::vector<Variant>> admitted_variants(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                               const DeviceInfo& device, std::vector<Variant> variants) {
  OPFORGE_ASSIGN(BoundCall call, call_of(op, shape, device));
  Evaluator evaluator(op.signature, call, device);
  std::erase_if(variants, [&](const Variant& variant) {
    evaluator.use_values(&variant.values);
    return !check_guards(kernel.launch, evaluator);
  });
  return variants;
}

Result<Variant> default_variant(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                const Target& target, const DeviceInfo& device) {
  OPFORGE_ASSIGN(auto variants, default_variants(op, kernel, shape, target));
  OPFORGE_ASSIGN(variants, admitted_variants(op, kernel, shape, device, std::move(variants)));
  OPFORGE_ASSIGN(BoundCall call, call_of(op, shape, device));
  Evaluator evaluator(op.signature, call, device);
  std::erase_if(variants, [&](const Variant& variant) {
    evaluator.use_values(&variant.values);
    return !is_default(kernel, variant, evaluator);
  });
  const auto best = std::max_element(variants.begin(), variants.end(), [&](const Variant& a, const Variant& b) {
    return specialisations(kernel, a) < specialisations(kernel, b);
  });
  if (best == variants.end()) {
    return fail(Code::kNotFound, fmt::format("{}: kernel {} has no default variant for this shape on {}", op.signature.name,
                                             kernel.id, target.name), "forge/defaults");
  }
  return *best;
}

}  // namespace opforge
