// Kernels of a declaration, apart from their launch records.
#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "operator/validate.hpp"

namespace opforge::declaration {
namespace {

bool is_kernel_id(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

Status check_tunable(const Operator& op, const KernelDecl& kernel, std::size_t index) {
  const Tunable& tunable = kernel.tunables[index];
  const std::string where = fmt::format("kernel {}, tunable {}", kernel.id, tunable.name);
  if (!is_identifier(tunable.name)) return wrong(op, "{}: the name is no identifier", where);
  if (tunable.values.empty()) return wrong(op, "{}: it lists no values", where);
  if (!std::is_sorted(tunable.values.begin(), tunable.values.end()) ||
      std::adjacent_find(tunable.values.begin(), tunable.values.end()) != tunable.values.end()) {
    return wrong(op, "{}: its values must ascend, each once", where);
  }
  if (tunable.specialisation && tunable.changes_bits) {
    return wrong(op, "{}: a specialisation may not change bits", where);
  }
  if (classify(op.signature, &kernel, tunable.name, index) != SymbolKind::kUnknown ||
      find_tensor(op.signature, tunable.name)) {
    return wrong(op, "{}: the name is already that of an argument, dim, dtype or earlier tunable",
                 where);
  }
  if (tunable.initial.empty()) {
    if (tunable.values.size() > 1 && !tunable.specialisation) {
      return wrong(op, "{}: it needs a default (initial)", where);
    }
    return {};
  }
  unsigned allowed = kAnyDim | kAnyAttribute | bit(SymbolKind::kDType) | kAnyTunable;
  if (kernel.tier == Tier::kDeterministic && tunable.changes_bits) {
    allowed = bit(SymbolKind::kReducedDim) | bit(SymbolKind::kBakedAttribute) |
              bit(SymbolKind::kDType) | bit(SymbolKind::kBitTunable);
  }
  const auto checked = check_expression(op, &kernel, tunable.initial, where, allowed, index);
  if (!checked) return fail(checked.error());
  return {};
}

Status check_sources(const Operator& op, const KernelDecl& kernel) {
  if (kernel.sources.empty()) return wrong(op, "kernel {}: it has no source file", kernel.id);
  for (const std::string& source : kernel.sources) {
    const Path path(source);
    const bool inside =
        !source.empty() && !path.is_absolute() && source.find("..") == std::string::npos;
    if (!inside) {
      return wrong(op, "kernel {}: source '{}' must be a file in the operator's folder", kernel.id,
                   source);
    }
    std::error_code ignored;
    if (!op.folder.empty() && !std::filesystem::is_regular_file(Path(op.folder) / path, ignored)) {
      return wrong(op, "kernel {}: source {} is not in {}", kernel.id, source, op.folder);
    }
  }
  return {};
}

Status check_preconditions(const Operator& op, const KernelDecl& kernel) {
  for (const Precondition& precondition : kernel.preconditions) {
    const std::int64_t value = precondition.value;
    if (precondition.kind == PreconditionKind::kAlignment &&
        (value <= 0 || (value & (value - 1)) != 0)) {
      return wrong(op, "kernel {}: alignment {} must be a power of two", kernel.id, value);
    }
    if (precondition.kind == PreconditionKind::kDTypeIn && precondition.dtypes.empty()) {
      return wrong(op, "kernel {}: a dtype precondition lists no dtypes", kernel.id);
    }
    if (precondition.kind == PreconditionKind::kMinLeadingDim && value < 0) {
      return wrong(op, "kernel {}: the least leading dim {} is negative", kernel.id, value);
    }
  }
  for (const Requirement& requirement : kernel.requires_any) {
    const bool window = requirement.max_arch == 0 || requirement.min_arch <= requirement.max_arch;
    if (requirement.min_arch < 0 || requirement.max_arch < 0 || !window) {
      return wrong(op, "kernel {}: the architecture window {} to {} is empty", kernel.id,
                   requirement.min_arch, requirement.max_arch);
    }
  }
  return {};
}

}  // namespace

Status check_kernel(const Operator& op, const KernelDecl& kernel) {
  if (!is_kernel_id(kernel.id)) {
    return wrong(op, "kernel id '{}' must be letters, digits, '.', '_' and '-'", kernel.id);
  }
  if (kernel.backend.empty()) return wrong(op, "kernel {}: it names no backend", kernel.id);
  const Tier contract = op.signature.default_contract;
  // The reference serves what nothing else does, at its own tier; that is no offer of the operator.
  const bool is_reference = kernel.backend == "reference";
  if (!is_reference && kernel.tier != contract &&
      std::find(op.other_tiers.begin(), op.other_tiers.end(), kernel.tier) ==
          op.other_tiers.end()) {
    return wrong(
        op, "kernel {}: its tier {} is neither the default contract ({}) nor among the other tiers",
        kernel.id, tier_name(kernel.tier), tier_name(contract));
  }
  for (const DTypeCombo& combo : kernel.dtypes) {
    const auto& allowed = op.signature.dtypes;
    if (std::find(allowed.begin(), allowed.end(), combo) == allowed.end()) {
      return wrong(op, "kernel {}: dtypes '{}' are not among the operator's", kernel.id,
                   to_string(combo));
    }
  }
  OPFORGE_TRY(check_sources(op, kernel));
  OPFORGE_TRY(check_preconditions(op, kernel));
  for (std::size_t i = 0; i < kernel.tunables.size(); ++i)
    OPFORGE_TRY(check_tunable(op, kernel, i));
  for (const std::string& constraint : kernel.constraints) {
    const auto checked =
        check_expression(op, &kernel, constraint, fmt::format("kernel {}, constraint", kernel.id),
                         kAnyTunable | bit(SymbolKind::kDType));
    if (!checked) return fail(checked.error());
  }
  return check_launch(op, kernel);
}

}  // namespace opforge::declaration
