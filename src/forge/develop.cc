#include "forge/develop.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"

namespace opforge {

Status DevelopmentSource::want_kernel(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                      const Target& target, OperatorSection& section) {
  if (!compiles_for(op, kernel, shape.dtypes, target)) return {};
  OPFORGE_ASSIGN(auto variants, default_variants(op, kernel, shape, target));
  for (const Variant& variant : variants) {
    auto built = obtain(op, kernel, variant, store_, nullptr);
    if (!built && built.error().code == Code::kUnavailable) {
      log(LogLevel::kInfo, "forge/develop", fmt::format("{}: {}", to_string(variant), built.error().message));
      return {};
    }
    if (!built) return fail(built.error());
    const bool known = std::any_of(section.artifacts.begin(), section.artifacts.end(), [&](const Artifact& artifact) {
      return artifact.code_key == built->artifact.code_key;
    });
    if (known) continue;
    codes_[built->artifact.code_digest] = std::move(built->code);
    section.artifacts.push_back(std::move(built->artifact));
  }
  return {};
}

Status DevelopmentSource::want(std::string_view op, const ShapeRequest& shape, std::span<const Target> targets) {
  OPFORGE_ASSIGN(const Operator* declared, catalogue_.get(op));
  const std::lock_guard lock(mutex_);
  OperatorSection& section = sections_[declared->signature.name];
  section.signature = declared->signature;
  section.formula = declared->formula;
  for (const KernelDecl& kernel : declared->kernels) {
    // The most specific target that the kernel compiles for is enough: it is the one that dispatch would prefer.
    for (const Target& target : targets) {
      if (!compiles_for(*declared, kernel, shape.dtypes, target)) continue;
      OPFORGE_TRY(want_kernel(*declared, kernel, shape, target, section));
      break;
    }
  }
  return {};
}

std::vector<std::string> DevelopmentSource::operators() const {
  std::vector<std::string> names;
  for (const Operator* op : catalogue_.all()) names.push_back(op->signature.name);
  return names;
}

Result<std::shared_ptr<const OperatorSection>> DevelopmentSource::section(std::string_view op) {
  OPFORGE_ASSIGN(const Operator* declared, catalogue_.get(op));
  const std::lock_guard lock(mutex_);
  const auto found = sections_.find(op);
  if (found != sections_.end()) return std::make_shared<const OperatorSection>(found->second);
  OperatorSection empty;
  empty.signature = declared->signature;
  empty.formula = declared->formula;
  return std::make_shared<const OperatorSection>(std::move(empty));
}

Result<std::string> DevelopmentSource::code(const Artifact& artifact) {
  const std::lock_guard lock(mutex_);
  const auto found = codes_.find(artifact.code_digest);
  if (found == codes_.end()) {
    return fail(Code::kNotFound, fmt::format("{} was not compiled by this process", to_string(artifact.variant)), "forge/develop");
  }
  return found->second;
}

}  // namespace opforge
