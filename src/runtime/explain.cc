#include <fmt/format.h>

#include "runtime/runtime.hpp"
#include "runtime/seal.hpp"
#include "runtime/state.hpp"

namespace opforge {
namespace {

double measured_us(const OperatorView& view, const BoundCall& call, const DeviceInfo* device,
                   const Artifact& artifact) {
  for (const auto& section : view.sections) {
    for (const TableEntry& entry : section.section->table) {
      if (entry.code_key == artifact.code_key && entry.dims == call.dims &&
          entry.attributes == call.attributes && entry.dtypes == call.dtypes &&
          (device == nullptr || entry.device_model == device->model)) {
        return entry.median_us;
      }
    }
  }
  return 0;
}

std::string passed_over(const Resolved& resolved, const CallOptions& options,
                        const Variant& variant) {
  const Variant& taken = resolved.view->artifacts[resolved.choice->artifact].artifact->variant;
  if (!options.backend.empty() && variant.backend != options.backend) {
    return fmt::format("could serve, but backend {} is named in the call", options.backend);
  }
  return fmt::format("could serve, but {} comes first: {}", to_string(taken), resolved.choice->why);
}

}  // namespace

Explanation Runtime::explain(std::string_view op, std::span<const TensorView> tensors,
                             const ValueMap& attributes, const CallOptions& options) {
  Explanation explanation;
  explanation.op = op;
  std::uint64_t stream_id = 0;
  const auto call_state = state_->call_state(tensors, options.stream, &stream_id);
  const Resolved resolved =
      state_->resolve(op, tensors, attributes, options,
                      call_state ? *call_state : CallState{is_sealed(), is_development(), false});
  explanation.asked = resolved.asked;
  if (resolved.view != nullptr && resolved.call) {
    const DeviceInfo* device = resolved.plan != nullptr ? &resolved.plan->device() : nullptr;
    for (std::size_t i = 0; i < resolved.verdicts.size(); ++i) {
      const OfferedArtifact& offered = resolved.view->artifacts[i];
      const Variant& variant = offered.artifact->variant;
      Candidate candidate{resolved.view->sections[offered.section].source->name(),
                          variant.kernel,
                          to_string(variant),
                          variant.backend,
                          variant.target,
                          variant.tier,
                          false,
                          resolved.verdicts[i].reason,
                          measured_us(*resolved.view, *resolved.call, device, *offered.artifact)};
      candidate.taken = resolved.plan != nullptr && resolved.choice->artifact == i;
      if (candidate.taken) {
        candidate.reason = resolved.choice->why;
        if (resolved.choice->unproved) candidate.reason += "; unproved on this device";
        if (resolved.choice->fallback)
          candidate.reason += "; a stricter stand-in for what was asked";
      } else if (candidate.reason.empty()) {
        candidate.reason =
            resolved.choice ? passed_over(resolved, options, variant) : "could serve";
      }
      explanation.candidates.push_back(std::move(candidate));
    }
  }
  const auto user = options.facts.user ? options.facts.user(tensors) : Support::yes();
  if (!user) {
    explanation.outcome = fmt::format("unavailable: {}", user.reason());
  } else if (resolved.plan != nullptr) {
    explanation.outcome = to_string(resolved.plan->artifact().variant);
    explanation.grade = grade_name(resolved.plan->grade());
  } else if (resolved.unavailable) {
    explanation.outcome = fmt::format("unavailable: {}", resolved.unavailable->reason);
  } else if (resolved.error) {
    explanation.outcome =
        fmt::format("{}: {}", code_name(resolved.error->code), resolved.error->message);
  }
  return explanation;
}

}  // namespace opforge
