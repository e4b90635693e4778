#include "verify/subject.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends.hpp"

namespace opforge {

Result<LoadedSubject> LoadedSubject::load(const Signature& signature, const BuiltCode& code,
                                          const DeviceInfo& device, bool allow_ptx) {
  const std::string name = to_string(code.artifact.variant);
  OPFORGE_ASSIGN(const Target target, parse_target(code.artifact.variant.target));
  if (const Support support = runs_on(target, device, allow_ptx); !support) {
    return fail(Code::kUnavailable, fmt::format("{}: {}", name, support.reason()), "verify");
  }
  LoadedSubject out;
  out.launcher_ = find_launcher(device.device.kind, code.artifact.kind);
  if (out.launcher_ == nullptr) {
    return fail(Code::kUnavailable,
                fmt::format("{}: no launcher of this build runs {} code on {}", name,
                            code_kind_name(code.artifact.kind), device_name(device.device)),
                "verify");
  }
  out.artifact_ = std::make_shared<const Artifact>(code.artifact);
  out.bytes_ = std::make_shared<const std::string>(code.code);
  out.signature_ = &signature;
  out.device_ = device;
  out.api_ = &out.launcher_->device_api();
  out.allow_ptx_ = allow_ptx;
  // Damaged or foreign code shows here and not in the first trial.
  OPFORGE_TRY(out.launcher_->load(*out.artifact_, *out.bytes_, device.device.ordinal, allow_ptx));
  return out;
}

Result<LoadedSubject::Planned> LoadedSubject::plan(std::span<const TensorView> tensors,
                                                   const ValueMap& attributes,
                                                   std::int64_t least_items) {
  const auto refusal = [](const Error& error) {
    return error.code == Code::kUnavailable || error.code == Code::kInvalidArgument;
  };
  auto call = bind_call(*signature_, tensors, attributes);
  if (!call) {
    if (refusal(call.error())) return Planned{nullptr, call.error().message};
    return fail(call.error());
  }
  CallerFacts facts;
  facts.lockstep = true;
  if (const Support met = check_preconditions(artifact_->preconditions, tensors, facts); !met) {
    return Planned{nullptr, met.reason()};
  }
  std::shared_ptr<const Artifact> artifact = artifact_;
  if (least_items > 0) {
    Artifact copy = *artifact_;
    for (LaunchStep& step : copy.launch.steps) step.block[0] = std::to_string(least_items);
    artifact = std::make_shared<const Artifact>(std::move(copy));
  }
  auto plan =
      build_plan(*signature_, *call, std::move(artifact), *bytes_, *launcher_, device_, allow_ptx_);
  if (!plan) {
    if (refusal(plan.error())) return Planned{nullptr, plan.error().message};
    return fail(plan.error());
  }
  return Planned{std::move(*plan), {}};
}

namespace {

// Workspace full of garbage with a canary behind it.
class Workspace {
 public:
  Workspace(DeviceApi& api, int ordinal, std::size_t bytes)
      : api_(api), ordinal_(ordinal), bytes_(bytes) {}
  ~Workspace() {
    if (memory_ != nullptr) api_.release(ordinal_, memory_, nullptr);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* get() const { return memory_; }

  Status make() {
    if (bytes_ == 0) return {};
    OPFORGE_ASSIGN(memory_, api_.allocate(ordinal_, bytes_ + kCanary, nullptr));
    const std::string garbage(std::min(bytes_ + kCanary, std::size_t{16} << 20), kGarbage);
    for (std::size_t at = 0; at < bytes_ + kCanary; at += garbage.size()) {
      const std::size_t part = std::min(garbage.size(), bytes_ + kCanary - at);
      OPFORGE_TRY(api_.copy(ordinal_, static_cast<std::byte*>(memory_) + at, garbage.data(), part));
    }
    return {};
  }

  Status intact() const {
    if (bytes_ == 0) return {};
    std::string tail(kCanary, '\0');
    OPFORGE_TRY(
        api_.copy(ordinal_, tail.data(), static_cast<std::byte*>(memory_) + bytes_, kCanary));
    if (tail.find_first_not_of(kGarbage) == std::string::npos) return {};
    return fail(Code::kInternal,
                fmt::format("wrote after the end of its workspace of {} bytes", bytes_), "verify");
  }

 private:
  static constexpr std::size_t kCanary = 4096;
  static constexpr char kGarbage = static_cast<char>(0xff);
  DeviceApi& api_;
  int ordinal_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace

Status LoadedSubject::run(const Plan& plan, std::span<void* const> data, StreamHandle stream) {
  Workspace workspace(*api_, device_.device.ordinal, plan.workspace_bytes());
  OPFORGE_TRY(workspace.make());
  OPFORGE_TRY(plan.execute(data.data(), workspace.get(), stream));
  OPFORGE_TRY(api_->synchronize(device_.device.ordinal, stream));
  return workspace.intact();
}

}  // namespace opforge
