// Calls and plans.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "capi/context.hpp"
#include "capi/convert.hpp"
#include "operator/infer.hpp"

using namespace opforge;
using namespace opforge::capi;

namespace {

nlohmann::json to_json(const Explanation& explanation) {
  nlohmann::json candidates = nlohmann::json::array();
  for (const Candidate& candidate : explanation.candidates) {
    candidates.push_back(
        {{"source", candidate.source},
         {"kernel", candidate.kernel},
         {"variant", candidate.variant},
         {"backend", candidate.backend},
         {"target", candidate.target},
         {"tier", tier_name(candidate.tier)},
         {"taken", candidate.taken},
         {"reason", candidate.reason},
         {"median_us",
          candidate.median_us > 0 ? nlohmann::json(candidate.median_us) : nlohmann::json()}});
  }
  return {{"op", explanation.op},
          {"asked", tier_name(explanation.asked)},
          {"outcome", explanation.outcome},
          {"grade", explanation.grade},
          {"candidates", std::move(candidates)}};
}

const PlanObject* plan_of(const opforge_plan* handle) {
  return object_of<PlanObject>(handle, Tag::kPlan, "the plan");
}

}  // namespace

extern "C" {

opforge_status opforge_call(opforge_context* context, const char* op,
                            const DLTensor* const* tensors, size_t tensor_count,
                            const opforge_attribute* attributes, size_t attribute_count,
                            const opforge_call_options* options) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (op == nullptr) return failed(Code::kInvalidArgument, "the operator's name is null");
    CallArguments arguments;
    if (auto set = arguments.set(tensors, tensor_count, attributes, attribute_count, options); !set)
      return failed(set.error());
    const auto outcome = object->runtime.call_list(op, arguments.tensors(), arguments.attributes(),
                                                   arguments.options());
    if (!outcome) return failed(outcome.error());
    if (*outcome) return failed(Code::kUnavailable, (*outcome)->reason);
    return OPFORGE_OK;
  });
}

opforge_status opforge_infer_outputs(opforge_context* context, const char* op,
                                     const DLTensor* const* tensors, size_t tensor_count,
                                     const opforge_attribute* attributes, size_t attribute_count,
                                     opforge_output_info* outputs) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (op == nullptr || outputs == nullptr) {
      return failed(Code::kInvalidArgument,
                    "the operator's name or the place for the outputs is null");
    }
    CallArguments arguments;
    if (auto set = arguments.set(tensors, tensor_count, attributes, attribute_count, nullptr); !set)
      return failed(set.error());
    const auto signature = object->runtime.signature(op);
    if (!signature) return failed(signature.error());
    const auto complete =
        infer_outputs(**signature, arguments.tensors(), arguments.attribute_map());
    if (!complete) return failed(complete.error());
    for (std::size_t i = 0; i < tensor_count; ++i) {
      outputs[i] = {};
      if (arguments.tensors()[i].present() || !(*complete)[i].present()) continue;
      const TensorView& view = (*complete)[i];
      outputs[i].needed = 1;
      outputs[i].ndim = view.rank;
      std::copy_n(view.dims.begin(), view.rank, outputs[i].shape);
      outputs[i].dtype = to_dlpack(view.dtype);
      outputs[i].device = to_dlpack(view.device);
    }
    return OPFORGE_OK;
  });
}

opforge_status opforge_explain_json(opforge_context* context, const char* op,
                                    const DLTensor* const* tensors, size_t tensor_count,
                                    const opforge_attribute* attributes, size_t attribute_count,
                                    const opforge_call_options* options, char** json) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (op == nullptr) return failed(Code::kInvalidArgument, "the operator's name is null");
    CallArguments arguments;
    if (auto set = arguments.set(tensors, tensor_count, attributes, attribute_count, options); !set)
      return failed(set.error());
    const auto explanation = object->runtime.explain(
        op, arguments.tensors(), arguments.attribute_map(), arguments.options());
    return give_text(to_json(explanation).dump(), json);
  });
}

opforge_status opforge_plan_create(opforge_context* context, const char* op,
                                   const DLTensor* const* tensors, size_t tensor_count,
                                   const opforge_attribute* attributes, size_t attribute_count,
                                   const opforge_call_options* options,
                                   opforge_plan** plan) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (op == nullptr || plan == nullptr)
      return failed(Code::kInvalidArgument,
                    "the operator's name or the place for the plan is null");
    *plan = nullptr;
    CallArguments arguments;
    if (auto set = arguments.set(tensors, tensor_count, attributes, attribute_count, options); !set)
      return failed(set.error());
    auto prepared = object->runtime.prepare(op, arguments.tensors(), arguments.attribute_map(),
                                            arguments.options());
    if (!prepared) return failed(prepared.error());
    if (const auto* no = std::get_if<Unavailable>(&*prepared))
      return failed(Code::kUnavailable, no->reason);
    auto made = std::make_unique<PlanObject>();
    made->plan = std::get<std::shared_ptr<const Plan>>(std::move(*prepared));
    const Variant& variant = made->plan->artifact().variant;
    made->variant = to_string(variant);
    made->device = device_name(made->plan->device().device);
    made->info = {variant.kernel.c_str(),
                  made->variant.c_str(),
                  variant.backend.c_str(),
                  variant.target.c_str(),
                  made->device.c_str(),
                  contract_of(variant.tier),
                  grade_name(made->plan->grade()).data(),
                  made->plan->why().c_str()};
    *plan = reinterpret_cast<opforge_plan*>(take_slot(Tag::kPlan, made.get()));
    made.release();
    return OPFORGE_OK;
  });
}

opforge_status opforge_plan_workspace_bytes(const opforge_plan* plan, size_t* bytes) noexcept {
  const PlanObject* object = plan_of(plan);
  if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
  if (bytes == nullptr) return failed(Code::kInvalidArgument, "the place for the size is null");
  *bytes = object->plan->workspace_bytes();
  return OPFORGE_OK;
}

opforge_status opforge_plan_workspace_align(const opforge_plan* plan, size_t* align) noexcept {
  const PlanObject* object = plan_of(plan);
  if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
  if (align == nullptr)
    return failed(Code::kInvalidArgument, "the place for the alignment is null");
  *align = object->plan->workspace_align_mask() + 1;
  return OPFORGE_OK;
}

opforge_status opforge_plan_execute(const opforge_plan* plan, void* const* data, size_t data_count,
                                    void* workspace, void* stream) noexcept {
  return guarded([&] {
    const PlanObject* object = plan_of(plan);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (data_count != object->plan->tensor_count() || (data == nullptr && data_count != 0)) {
      return failed(Code::kInvalidArgument,
                    "the plan is for " + std::to_string(object->plan->tensor_count()) +
                        " tensors, got " +
                        (data == nullptr ? std::string("none") : std::to_string(data_count)));
    }
    if (stream != nullptr) {
      if (const Status kept = keep_if_captured(*object->plan, stream); !kept)
        return failed(kept.error());
    }
    const Status done = object->plan->execute(data, workspace, stream);
    return done ? OPFORGE_OK : failed(done.error());
  });
}

opforge_status opforge_plan_describe(const opforge_plan* plan,
                                     const opforge_plan_info** info) noexcept {
  const PlanObject* object = plan_of(plan);
  if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
  if (info == nullptr)
    return failed(Code::kInvalidArgument, "the place for the description is null");
  *info = &object->info;
  return OPFORGE_OK;
}

opforge_status opforge_plan_destroy(opforge_plan* plan) noexcept {
  return guarded([&] {
    if (plan == nullptr) return OPFORGE_OK;
    std::unique_ptr<const PlanObject> object(plan_of(plan));
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    free_slot(reinterpret_cast<Slot*>(plan));
    return OPFORGE_OK;
  });
}

}  // extern "C"
