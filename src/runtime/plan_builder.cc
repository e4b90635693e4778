#include "runtime/plan_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/code_cache.hpp"
#include "runtime/evaluate.hpp"

namespace opforge {
namespace {

bool is_output(const TensorArg& arg) { return arg.access != Access::kRead; }

bool may_alias(const Signature& signature, std::size_t a, std::size_t b) {
  const auto names = [&](std::size_t from, std::size_t to) {
    const auto& list = signature.tensors[from].may_alias;
    return std::find(list.begin(), list.end(), signature.tensors[to].name) != list.end();
  };
  return names(a, b) || names(b, a);
}

// Does any expression of the record, guards or the others, name this symbol? Errs on the side of
// yes.
bool named_in(const LaunchRecord& record, bool in_guards, const std::string& symbol) {
  bool named = false;
  const auto visit = [&](ExprPlace place, const std::string& text, const std::string&) -> Status {
    named = named ||
            ((place == ExprPlace::kGuard) == in_guards && text.find(symbol) != std::string::npos);
    return {};
  };
  return !visit_expressions(record, visit) || named;
}

// The least alignment of tensor `index` for which this code would still be chosen: pointers of
// later calls may be less aligned than the first one, but not less than what the guards were met
// with.
std::int64_t needed_alignment(const Signature& signature, const BoundCall& call,
                              const Artifact& artifact, const DeviceInfo& device,
                              std::size_t index) {
  const TensorView& view = call.tensors[index];
  const auto natural = static_cast<std::int64_t>(itemsize(view.dtype));
  std::int64_t needed = natural;
  for (const Precondition& precondition : artifact.preconditions) {
    if (precondition.kind == PreconditionKind::kAlignment)
      needed = std::max(needed, precondition.value);
  }
  const std::string symbol = signature.tensors[index].name + ".align";
  const bool guarded = named_in(artifact.launch, true, symbol);
  const bool evaluated = named_in(artifact.launch, false, symbol);
  if (!guarded && !evaluated) return needed;
  Evaluator evaluator(signature, call, device);
  evaluator.use_values(&artifact.variant.values);
  const Value* own = evaluator.find(symbol);
  const std::int64_t present = own != nullptr && std::holds_alternative<std::int64_t>(*own)
                                   ? std::get<std::int64_t>(*own)
                                   : 0;
  if (evaluated) return std::max(needed, present);
  for (std::int64_t align = natural; align < present; align *= 2) {
    evaluator.set(symbol, align);
    if (check_guards(artifact.launch, evaluator)) return std::max(needed, align);
  }
  return std::max(needed, present);
}

}  // namespace

Support check_guards(const LaunchRecord& record, Evaluator& evaluator) {
  for (const Guard& guard : record.guards) {
    const auto holds = evaluator.truth(guard.expr);
    if (!holds)
      return Support::no(fmt::format("guard \"{}\": {}", guard.expr, holds.error().message));
    if (!*holds)
      return Support::no(guard.reason.empty() ? fmt::format("needs {}", guard.expr) : guard.reason);
  }
  return Support::yes();
}

bool outputs_are_empty(const Signature& signature, const BoundCall& call) {
  for (std::size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorView& view = call.tensors[i];
    if (is_output(signature.tensors[i]) && view.present() && view.element_count() != 0)
      return false;
  }
  return true;
}

void PlanBuilder::describe_tensors(Plan& plan) const {
  plan.tensors_.resize(signature.tensors.size());
  plan.views_ = call.tensors;
  for (std::size_t i = 0; i < signature.tensors.size(); ++i) {
    const TensorView& view = call.tensors[i];
    Plan::Tensor& tensor = plan.tensors_[i];
    plan.names_.push_back(signature.tensors[i].name);
    if (!view.present() || view.element_count() == 0) continue;
    tensor.required = true;
    tensor.written = is_output(signature.tensors[i]);
    tensor.align_mask =
        static_cast<std::uintptr_t>(staging != nullptr
                                        ? itemsize(view.dtype)
                                        : needed_alignment(signature, call, *artifact, device, i)) -
        1;
    const ByteRange range = byte_range(view);
    const auto base = reinterpret_cast<std::uintptr_t>(view.data);
    tensor.low_bytes = static_cast<std::int64_t>(range.low - base);
    tensor.high_bytes = static_cast<std::int64_t>(range.high - base);
  }
  for (std::uint32_t i = 0; i < signature.tensors.size(); ++i) {
    if (!plan.tensors_[i].written) continue;
    for (std::uint32_t j = 0; j < signature.tensors.size(); ++j) {
      if (j == i || !plan.tensors_[j].required || (plan.tensors_[j].written && j < i)) continue;
      plan.conflicts_.push_back({i, j, may_alias(signature, i, j)});
    }
  }
}

Result<std::shared_ptr<const Plan>> PlanBuilder::build() const {
  auto plan = std::make_shared<Plan>();
  plan->op_ = signature.name;
  plan->launcher_ = &launcher;
  plan->ordinal_ = device.device.ordinal;
  plan->grade_ = grade;
  plan->why_ = why;
  plan->device_ = tensor_device != nullptr ? *tensor_device : device;
  plan->artifact_ = artifact;
  plan->staging_ = staging;
  describe_tensors(*plan);
  if (outputs_are_empty(signature, call)) return std::shared_ptr<const Plan>(std::move(plan));

  OPFORGE_ASSIGN(PreparedLaunch launch, prepare_launch(signature, call, artifact->launch,
                                                       artifact->variant.values, device));
  plan->workspace_bytes_ = launch.workspace_bytes;
  if (launch.workspace_bytes != 0 && artifact->launch.workspace_align > 1) {
    plan->workspace_mask_ = artifact->launch.workspace_align - 1;
  }
  OPFORGE_ASSIGN(plan->code_,
                 load_code(launcher, *artifact, device.device.ordinal, allow_ptx, code));
  for (std::size_t i = 0; i < launch.steps.size(); ++i) {
    PreparedStep& step = launch.steps[i];
    if (step.kind == StepKind::kKernel) {
      // A grid of nothing is not an error anywhere but in the driver.
      if (step.grid[0] == 0 || step.grid[1] == 0 || step.grid[2] == 0) continue;
      const std::string& entry = artifact->launch.steps[i].entry;
      const auto symbol = artifact->symbols.find(entry);
      if (symbol == artifact->symbols.end()) {
        return fail(Code::kCorrupt,
                    fmt::format("{}: the artifact maps no symbol to entry '{}'; rebuild the pack",
                                to_string(artifact->variant), entry),
                    "runtime/plan");
      }
      OPFORGE_TRY(launcher.resolve(*plan->code_, symbol->second, device.device.ordinal, step));
    } else if (step.memset_bytes == 0) {
      continue;
    }
    plan->steps_.push_back(std::move(step));
  }
  return std::shared_ptr<const Plan>(std::move(plan));
}

Result<std::shared_ptr<const Plan>> build_plan(const Signature& signature, const BoundCall& call,
                                               std::shared_ptr<const Artifact> artifact,
                                               const std::string& code, Launcher& launcher,
                                               const DeviceInfo& device, bool allow_ptx) {
  if (!outputs_are_empty(signature, call)) {
    Evaluator evaluator(signature, call, device);
    evaluator.use_values(&artifact->variant.values);
    if (const Support support = check_guards(artifact->launch, evaluator); !support) {
      return fail(Code::kUnavailable,
                  fmt::format("{} cannot serve this call: {}", to_string(artifact->variant),
                              support.reason()),
                  "runtime/plan");
    }
  }
  const PlanBuilder builder{signature,
                            call,
                            std::move(artifact),
                            launcher,
                            device,
                            [&code]() -> Result<std::string> { return code; },
                            allow_ptx,
                            Grade::kDefault,
                            "named directly"};
  return builder.build();
}

}  // namespace opforge
