#include "forge/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "forge/compile.hpp"
#include "runtime/backends.hpp"
#include "runtime/operator_view.hpp"

namespace opforge {
namespace {

bool listed(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

bool wanted(const VerifyRequest& request, std::string_view backend, Tier tier) {
  return listed(request.backends, backend) &&
         (request.tiers.empty() || std::find(request.tiers.begin(), request.tiers.end(), tier) != request.tiers.end());
}

VerifyEntry entry_of(const Variant& variant) {
  VerifyEntry entry;
  entry.op = variant.op;
  entry.kernel = variant.kernel;
  entry.backend = variant.backend;
  entry.variant = to_string(variant);
  entry.target = variant.target;
  entry.dtypes = to_string(variant.dtypes);
  entry.claimed = variant.tier;
  return entry;
}

Status prove_into(VerifyEntry& entry, const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                  const VerifyRequest& request) {
  SuiteOptions options = request.suite;
  options.tier = code.artifact.variant.tier;
  entry.device = device_name(device.device);
  auto proof = prove(op, code, device, options);
  if (!proof) {
    if (proof.error().code == Code::kCancelled) return fail(proof.error());
    entry.outcome = proof.error().code == Code::kUnavailable ? VerifyOutcome::kNotRun : VerifyOutcome::kFailed;
    entry.reason = proof.error().message;
    return {};
  }
  entry.report = std::move(proof->report);
  entry.attestation = std::move(proof->attestation);
  const bool proved = entry.attestation.passed && entry.attestation.tier >= entry.claimed;
  entry.outcome = proved ? VerifyOutcome::kProved : VerifyOutcome::kFailed;
  if (!proved) entry.reason = entry.report.first_failure();
  return {};
}

// Devices of all launchers, or the one that was named.
std::vector<DeviceInfo> devices_for(const VerifyRequest& request) {
  std::vector<DeviceInfo> devices = all_devices();
  if (!request.device.empty()) {
    std::erase_if(devices, [&](const DeviceInfo& device) { return device_name(device.device) != request.device; });
  }
  return devices;
}

struct Planned {
  const KernelDecl* kernel;
  Variant variant;
  DeviceInfo device;
};

// The default variants of a kernel over all test cases, each once, for the first device and target that serve it.
Result<std::vector<Planned>> plan_kernel(const Operator& op, const KernelDecl& kernel, const DTypeCombo& dtypes,
                                         const std::vector<DeviceInfo>& devices, std::string& why_not) {
  std::vector<Planned> planned;
  for (const DeviceInfo& device : devices) {
    for (const Target& target : native_targets(device)) {
      if (Support support = compiles_for(op, kernel, dtypes, target); !support) {
        if (why_not.empty()) why_not = support.reason();
        continue;
      }
      std::set<std::string> seen;
      for (const Case& each : op.cases) {
        if (!(each.uses & unsigned(CaseUse::kTest))) continue;
        OPFORGE_ASSIGN(auto variants, default_variants(op, kernel, {each.dims, each.attributes, dtypes}, target));
        for (Variant& variant : variants) {
          if (seen.insert(to_string(variant)).second) planned.push_back({&kernel, std::move(variant), device});
        }
      }
      if (!planned.empty()) return planned;
    }
  }
  if (why_not.empty()) why_not = "no device here runs it";
  return planned;
}

}  // namespace

Result<std::vector<VerifyEntry>> prove_operator(const Operator& op, Store& store, const VerifyRequest& request) {
  const std::vector<DeviceInfo> devices = devices_for(request);
  std::vector<VerifyEntry> entries;
  std::vector<Planned> planned;
  const std::vector<DTypeCombo>& combos = request.dtypes.empty() ? op.signature.dtypes : request.dtypes;
  for (const KernelDecl& kernel : op.kernels) {
    if (!wanted(request, kernel.backend, kernel.tier)) continue;
    // One artifact of the reference serves all dtypes; it is judged once with the first.
    const bool any_dtype = kernel.backend == kReferenceBackend;
    for (const DTypeCombo& dtypes : combos) {
      if (!kernel.dtypes.empty() && std::find(kernel.dtypes.begin(), kernel.dtypes.end(), dtypes) == kernel.dtypes.end()) continue;
      std::string why_not;
      OPFORGE_ASSIGN(auto some, plan_kernel(op, kernel, dtypes, devices, why_not));
      if (some.empty()) {
        VerifyEntry entry;
        entry.op = op.signature.name;
        entry.kernel = kernel.id;
        entry.backend = kernel.backend;
        entry.dtypes = to_string(dtypes);
        entry.claimed = kernel.tier;
        entry.reason = why_not;
        entries.push_back(std::move(entry));
      }
      std::move(some.begin(), some.end(), std::back_inserter(planned));
      if (any_dtype) break;
    }
  }
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Planned& each = planned[i];
    VerifyEntry entry = entry_of(each.variant);
    if (request.progress) request.progress(entry.variant, i, planned.size());
    auto code = obtain(op, *each.kernel, each.variant, store, nullptr);
    if (!code) {
      entry.outcome = code.error().code == Code::kUnavailable ? VerifyOutcome::kNotRun : VerifyOutcome::kFailed;
      entry.reason = code.error().message;
    } else {
      OPFORGE_TRY(prove_into(entry, op, *code, each.device, request));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<VerifyEntry>> prove_pack(Pack& pack, const Catalogue& catalogue,
                                             const std::vector<std::string>& operators, const VerifyRequest& request) {
  std::vector<VerifyEntry> entries;
  const std::vector<DeviceInfo> devices = devices_for(request);
  std::vector<std::string> names = operators.empty() ? pack.operators() : operators;
  for (const std::string& name : names) {
    OPFORGE_ASSIGN(auto section, pack.section(name));
    const Operator* op = catalogue.find(name);
    for (std::size_t i = 0; i < section->artifacts.size(); ++i) {
      const Artifact& artifact = section->artifacts[i];
      if (!wanted(request, artifact.variant.backend, artifact.variant.tier)) continue;
      if (!request.dtypes.empty() && !artifact.variant.dtypes.empty() &&
          std::find(request.dtypes.begin(), request.dtypes.end(), artifact.variant.dtypes) == request.dtypes.end()) {
        continue;
      }
      VerifyEntry entry = entry_of(artifact.variant);
      if (request.progress) request.progress(entry.variant, i, section->artifacts.size());
      if (op == nullptr) {
        entry.reason = fmt::format("no declaration of {} here: give its plug-in with --plugin", name);
        entries.push_back(std::move(entry));
        continue;
      }
      OPFORGE_ASSIGN(Target target, parse_target(artifact.variant.target));
      const DeviceInfo* device = nullptr;
      for (const DeviceInfo& each : devices) {
        if (Support support = runs_on(target, each, request.suite.allow_ptx)) {
          device = &each;
          break;
        } else if (entry.reason.empty() || each.device.kind == target.device) {
          entry.reason = support.reason();
        }
      }
      if (device == nullptr) {
        entries.push_back(std::move(entry));
        continue;
      }
      entry.reason.clear();
      OPFORGE_ASSIGN(std::string bytes, pack.code(artifact));
      OPFORGE_TRY(prove_into(entry, *op, {artifact, std::move(bytes)}, *device, request));
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace opforge
