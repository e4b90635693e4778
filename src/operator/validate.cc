#include "operator/validate.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files.hpp"
#include "operator/languages.hpp"

namespace opforge {
namespace declaration {
namespace {

Status check_contract(const Operator& op) {
  if (!op.has_default_contract) {
    return wrong(op, "no default contract: call default_contract() with a tier");
  }
  const Tier contract = op.signature.default_contract;
  std::set<Tier> seen;
  for (const Tier tier : op.other_tiers) {
    if (tier == contract) {
      return wrong(op,
                   "{} is the default contract and again among the other tiers: leave it out there",
                   tier_name(tier));
    }
    if (!seen.insert(tier).second)
      return wrong(op, "{} is twice among the other tiers", tier_name(tier));
  }
  for (const Bound* bound : {&op.tolerances.fast, &op.tolerances.high_precision}) {
    if (!(bound->a >= 0) || !(bound->b >= 0) || std::isinf(bound->a) || std::isinf(bound->b)) {
      return wrong(op, "a tolerance must be finite and not negative, not a = {}, b = {}", bound->a,
                   bound->b);
    }
  }
  return {};
}

Status check_reference(const Operator& op) {
  if (!op.reference) return wrong(op, "no reference: give the function that computes it in double");
  if (op.folder.empty()) return {};
  if (op.reference_source.empty())
    return wrong(op, "no reference source: packs carry it, so name its file");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(Path(op.folder) / op.reference_source, ignored)) {
    return wrong(op, "the reference source {} is not in {}", op.reference_source, op.folder);
  }
  return {};
}

Status check_work(const Operator& op) {
  const std::pair<const char*, const std::string*> rows[] = {
      {"bytes read", &op.work.bytes_read},
      {"bytes written", &op.work.bytes_written},
      {"flops", &op.work.flops}};
  for (const auto& [name, text] : rows) {
    if (text->empty()) continue;
    const auto checked = check_expression(op, nullptr, *text, fmt::format("work model, {}", name),
                                          kAnyDim | kAnyAttribute | bit(SymbolKind::kDType));
    if (!checked) return fail(checked.error());
  }
  return {};
}

// Kernel ids, and one DETERMINISTIC kernel per backend.
Status check_ids(const Operator& op) {
  std::set<std::string> ids;
  std::map<std::string, std::string> deterministic;
  for (const KernelDecl& kernel : op.kernels) {
    if (!ids.insert(kernel.id).second)
      return wrong(op, "two kernels have the id '{}': rename one", kernel.id);
    if (kernel.tier != Tier::kDeterministic) continue;
    const auto [seen, is_new] = deterministic.emplace(kernel.backend, kernel.id);
    if (!is_new) {
      return wrong(op,
                   "kernels {} and {} of backend {} are both DETERMINISTIC: one must fix the bits",
                   seen->second, kernel.id, kernel.backend);
    }
  }
  return {};
}

}  // namespace

Status check_operator(const Operator& op) {
  OPFORGE_TRY(check_contract(op));
  OPFORGE_TRY(check_reference(op));
  OPFORGE_TRY(check_work(op));
  for (const auto& [tensor, fill] : op.fills) {
    if (!find_tensor(op.signature, tensor))
      return wrong(op, "a fill names '{}', which is no tensor", tensor);
  }
  std::set<std::string> names;
  for (const Case& one : op.cases) {
    if (one.name.empty()) return wrong(op, "a case has no name");
    if (!names.insert(one.name).second) return wrong(op, "two cases are called '{}'", one.name);
  }
  return check_ids(op);
}

}  // namespace declaration

Status validate(Operator& op) {
  OPFORGE_TRY(declaration::check_signature(op));
  OPFORGE_TRY(declaration::check_operator(op));
  for (const KernelDecl& kernel : op.kernels) OPFORGE_TRY(declaration::check_kernel(op, kernel));
  OPFORGE_TRY(validate_reasons(op));
  OPFORGE_TRY(declaration::check_cases(op));
  op.signature.deterministic_kernel.clear();
  for (const KernelDecl& kernel : op.kernels) {
    if (kernel.tier == Tier::kDeterministic)
      op.signature.deterministic_kernel.emplace(kernel.backend, kernel.id);
  }
  return {};
}

}  // namespace opforge
