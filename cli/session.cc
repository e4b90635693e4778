#include "cli/session.hpp"

#include <fmt/format.h>

#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "forge/catalogue.hpp"
#include "forge/develop.hpp"
#include "runtime/backends.hpp"
#include "runtime/operator_view.hpp"
#include "runtime/seal.hpp"

namespace opforge::cli {
namespace {

// The device of a call: the one named, else that of the backend, else the first GPU that the pack has code for, else the CPU.
// An OpenCL device may be this CPU once more, so it has to be asked for.
Result<DeviceInfo> choose_device(const SessionOptions& options, ArtifactSource& source, std::string_view op) {
  if (!options.device.empty()) return select_device(options.device);
  if (!options.backend.empty() && options.backend != kReferenceBackend) {
    // An unknown name is dispatch's to refuse, which lists those that serve the operator.
    auto device = device_for_backend(options.backend);
    if (device || device.error().code != Code::kNotFound) return device;
  }
  if (!options.pack.empty() && options.backend.empty()) {
    if (auto section = source.section(op)) {
      for (const DeviceInfo& device : all_devices()) {
        if (device.device.kind == DeviceKind::kCpu || device.device.kind == DeviceKind::kOpenCl) continue;
        for (const Artifact& artifact : (*section)->artifacts) {
          const auto target = parse_target(artifact.variant.target);
          if (target && runs_on(*target, device, options.allow_ptx)) return device;
        }
      }
    }
  }
  return select_device("cpu");
}

Result<ProofPolicy> parse_proof(const std::string& text) {
  if (text == "default") return ProofPolicy::kDefault;
  if (text == "required") return ProofPolicy::kRequired;
  if (text == "off") return ProofPolicy::kOff;
  return fail(Code::kInvalidArgument, "--proof: expected default, required or off, got '" + text + "'");
}

}  // namespace

void add_session(CLI::App& command, SessionOptions& options) {
  command.add_option("--pack", options.pack, "The pack to use; without one, sources are compiled (development mode)");
  command.add_option("--trust", options.trust, "Trust this key (hex or a file); may be repeated")->allow_extra_args(false);
  command.add_flag("--allow-unsigned", options.allow_unsigned, "Accept an unsigned pack");
  command.add_flag("--sealed", options.sealed, "Seal the process first: nothing compiles, a miss is an error");
  command.add_option("--backend", options.backend, "This backend or an error that says why not");
  command.add_option("--device", options.device, "cpu, cuda, cuda:1; default: a GPU that the pack has code for, else the CPU");
  command.add_option("--contract", options.contract, "FAST, HIGH_PRECISION or DETERMINISTIC; default: the operator's");
  command.add_option("--proof", options.proof, "default, required or off (development mode: off)")->capture_default_str();
  command.add_flag("--allow-ptx", options.allow_ptx, "Let the driver compile PTX (never when sealed)");
}

Result<std::shared_ptr<Pack>> open_pack(const std::string& path, const std::vector<std::string>& trust_also, bool allow_unsigned) {
  OPFORGE_ASSIGN(Trust trust, process_trust(user_folders().config));
  trust.allow_unsigned = allow_unsigned;
  for (const std::string& key : trust_also) {
    OPFORGE_ASSIGN(auto keys, parse_trusted(key));
    trust.keys.merge(keys);
  }
  return Pack::open(path, trust);
}

Result<Session> Session::open(const SessionOptions& options, const Common& common, std::string_view op) {
  Session session;
  session.runtime_ = std::make_unique<Runtime>();
  OPFORGE_ASSIGN(session.call_.proof, parse_proof(options.proof));
  if (!options.pack.empty()) {
    OPFORGE_ASSIGN(auto pack, open_pack(options.pack, options.trust, options.allow_unsigned));
    session.source_ = pack;
    session.runtime_->add_source(pack);
  } else {
    if (options.sealed) {
      return fail(Code::kInvalidArgument, "--sealed needs --pack FILE: a sealed process cannot compile, so there would be nothing to run");
    }
    develop();
    OPFORGE_ASSIGN(Catalogue catalogue, load_catalogue(common.plugins));
    session.catalogue_ = std::make_unique<Catalogue>(std::move(catalogue));
    if (auto declared = session.catalogue_->get(op); !declared) return fail(declared.error());
    OPFORGE_ASSIGN(Store store, Store::open(user_folders().cache));
    session.development_ = std::make_shared<DevelopmentSource>(*session.catalogue_, std::move(store));
    session.source_ = session.development_;
    if (options.proof == "default") session.call_.proof = ProofPolicy::kOff;
  }
  OPFORGE_ASSIGN(session.device_, choose_device(options, *session.source_, op));
  if (options.sealed) seal();
  session.call_.backend = options.backend;
  session.call_.allow_ptx = options.allow_ptx;
  if (!options.contract.empty()) {
    OPFORGE_ASSIGN(session.call_.contract, parse_tier(options.contract));
  }
  return session;
}

Result<const Signature*> Session::signature(std::string_view op) {
  if (catalogue_ == nullptr) return runtime_->signature(op);
  OPFORGE_ASSIGN(const Operator* declared, catalogue_->get(op));
  return &declared->signature;
}

Status Session::want(std::string_view op, const ValueMap& dims, const ValueMap& attributes, const DTypeCombo& dtypes) {
  if (development_ == nullptr) return {};
  std::vector<Target> targets;
  // For the device of the calls, and for the host, where the reference runs.
  for (const DeviceInfo& device : {device_, detect_cpu()}) {
    for (Target& target : native_targets(device)) targets.push_back(std::move(target));
  }
  OPFORGE_TRY(development_->want(op, {dims, attributes, dtypes}, targets));
  // A runtime reads the section of an operator once, so what was compiled now needs a new one.
  runtime_ = std::make_unique<Runtime>();
  runtime_->add_source(development_);
  return {};
}

Result<std::vector<BuiltCode>> Session::chosen(std::string_view op, std::span<const TensorView> tensors,
                                               const ValueMap& attributes, std::span<const Tier> contracts,
                                               std::span<const std::string> backends) {
  std::vector<BuiltCode> codes;
  for (const std::string& backend : backends) {
    for (const Tier contract : contracts) {
      CallOptions options = call_;
      options.contract = contract;
      options.backend = backend;
      auto prepared = runtime_->prepare(op, tensors, attributes, options);
      if (!prepared) {
        // A contract that this backend does not offer is no failure of the others.
        if (prepared.error().code == Code::kContractUnsatisfied || prepared.error().code == Code::kBackendNotEligible) continue;
        return fail(prepared.error());
      }
      const auto* plan = std::get_if<std::shared_ptr<const Plan>>(&*prepared);
      if (plan == nullptr) continue;
      const Artifact& artifact = (*plan)->artifact();
      const bool known = std::any_of(codes.begin(), codes.end(), [&](const BuiltCode& code) {
        return code.artifact.code_key == artifact.code_key;
      });
      if (known) continue;
      OPFORGE_ASSIGN(std::string bytes, source_->code(artifact));
      codes.push_back({artifact, std::move(bytes)});
    }
  }
  return codes;
}

Result<std::vector<std::string>> Session::backends(std::string_view op) {
  OPFORGE_ASSIGN(const auto section, source_->section(op));
  std::set<std::string> names;
  for (const Artifact& artifact : section->artifacts) {
    const auto target = parse_target(artifact.variant.target);
    if (artifact.variant.backend == kReferenceBackend) continue;
    if (target && runs_on(*target, device_, call_.allow_ptx)) names.insert(artifact.variant.backend);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace opforge::cli
