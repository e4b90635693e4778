#include "artifact/artifact.hpp"

#include <fmt/format.h>

namespace opforge {
namespace {

std::string listed(const ValueMap& values) {
  std::string out;
  for (const auto& [name, value] : values) {
    if (!out.empty()) out += ',';
    out += name + '=' + to_string(value);
  }
  return out;
}

}  // namespace

std::string to_string(const Variant& variant) {
  std::string out = variant.kernel;
  if (!variant.dtypes.empty()) out += '{' + to_string(variant.dtypes) + '}';
  if (!variant.baked.empty()) out += '(' + listed(variant.baked) + ')';
  if (!variant.values.empty()) out += '[' + listed(variant.values) + ']';
  return out + '@' + variant.target;
}

std::string_view code_kind_name(CodeKind kind) {
  switch (kind) {
    case CodeKind::kElfShared:
      return "elf_shared";
    case CodeKind::kCubin:
      return "cubin";
    case CodeKind::kPtx:
      return "ptx";
    case CodeKind::kOpenClBinary:
      return "opencl_binary";
    case CodeKind::kHsaco:
      return "hsaco";
  }
  return "unknown";
}

// Each field with its length, so that no two attestations share bytes. The signer is part of what
// is signed.
std::string attestation_message(const Attestation& a) {
  std::string out = "opforge attestation 1\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    out += fmt::format("{} {}:{}\n", name, value.size(), value);
  };
  add("code_digest", a.code_digest.hex());
  add("proof_key", a.proof_key.hex());
  add("op", a.op);
  add("variant", a.variant);
  add("device_model", a.device_model);
  add("driver_version", fmt::to_string(a.driver_version));
  add("tier", tier_name(a.tier));
  add("passed", a.passed ? "1" : "0");
  add("worst_error_over_bound", fmt::format("{}", a.worst_error_over_bound));
  add("cases", fmt::to_string(a.cases));
  add("suite_version", a.suite_version);
  add("date", a.date);
  add("signer", a.signer);
  return out;
}

}  // namespace opforge
