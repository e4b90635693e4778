// The objects behind the handles.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/support.hpp"

namespace opforge::capi {

// The description of one operator with every text that its C structs point at.
struct OperatorObject {
  std::vector<std::vector<const char*>> dims;
  std::vector<opforge_tensor_info> tensors;
  std::vector<opforge_attribute_info> attributes;
  std::vector<std::string> texts;  // reserved in full before it is filled: addresses stay
  std::vector<const char*> dtypes;
  std::shared_ptr<const OperatorSection> section;
  opforge_operator_info info{};
  Slot* slot = nullptr;
};

struct ContextObject {
  Runtime runtime;
  std::mutex mutex;  // of what follows
  std::vector<std::shared_ptr<ArtifactSource>> packs;
  std::vector<std::string> names;  // of operators, sorted
  std::map<std::string, std::unique_ptr<OperatorObject>, std::less<>> operators;
};

struct PlanObject {
  std::shared_ptr<const Plan> plan;
  std::string variant, device;
  opforge_plan_info info{};
};

inline ContextObject* context_of(opforge_context* handle) {
  return object_of<ContextObject>(handle, Tag::kContext, "the context");
}

}  // namespace opforge::capi
