#include <fmt/format.h>

#include "base/text.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

namespace {

// Raise when the meaning of generated units or of launch records changes.
constexpr std::int64_t kCodeSchema = 1;

void add_values(Fingerprint& into, std::string_view what, const ValueMap& values) {
  into.add(what, static_cast<std::int64_t>(values.size()));
  for (const auto& [name, value] : values) {
    into.add(name, static_cast<std::int64_t>(value.index()));
    if (const auto* whole = std::get_if<std::int64_t>(&value)) into.add(name, *whole);
    if (const auto* real = std::get_if<double>(&value)) into.add(name, *real);
    if (const auto* text = std::get_if<std::string>(&value)) into.add(name, *text);
  }
}

template <class List>
void add_list(Fingerprint& into, std::string_view what, const List& texts) {
  into.add(what, static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) into.add(what, text);
}

void add_binding(Fingerprint& into, const Binding& binding) {
  into.add("binding", binding.name)
      .add("type", static_cast<std::int64_t>(binding.type))
      .add("value", binding.value);
  into.add("size", static_cast<std::int64_t>(binding.size_bytes));
  into.add("fields", static_cast<std::int64_t>(binding.fields.size()));
  for (const Binding::Field& field : binding.fields) {
    into.add("offset", static_cast<std::int64_t>(field.offset_bytes));
    into.add("type", static_cast<std::int64_t>(field.type)).add("value", field.value);
  }
  const TensorMapSpec& map = binding.tensor_map;
  into.add("base", map.base).add("element", map.element);
  add_list(into, "dims", map.dims);
  add_list(into, "strides", map.strides);
  add_list(into, "box", map.box);
  add_list(into, "element_strides", map.element_strides);
  for (const int number : {map.interleave, map.swizzle, map.l2_promotion, map.oob_fill}) {
    into.add("map", static_cast<std::int64_t>(number));
  }
}

// The launch record travels with the code, so it is part of what is stored under the key.
void add_launch(Fingerprint& into, const LaunchRecord& launch) {
  into.add("steps", static_cast<std::int64_t>(launch.steps.size()));
  for (const LaunchStep& step : launch.steps) {
    into.add("kind", static_cast<std::int64_t>(step.kind)).add("entry", step.entry);
    into.add("bindings", static_cast<std::int64_t>(step.bindings.size()));
    for (const Binding& binding : step.bindings) add_binding(into, binding);
    add_list(into, "grid", step.grid);
    add_list(into, "block", step.block);
    add_list(into, "cluster", step.cluster);
    into.add("shared", step.shared_bytes);
    into.add("flags",
             static_cast<std::int64_t>(step.cooperative ? 1 : 0) | (step.programmatic ? 2 : 0));
    into.add("memset", step.memset_target)
        .add("bytes", step.memset_bytes)
        .add("value", step.memset_value);
  }
  into.add("workspace", launch.workspace_bytes)
      .add("align", static_cast<std::int64_t>(launch.workspace_align));
  into.add("guards", static_cast<std::int64_t>(launch.guards.size()));
  for (const Guard& guard : launch.guards)
    into.add("guard", guard.expr).add("reason", guard.reason);
}

}  // namespace

Result<Digest> code_key(Toolchain& toolchain, CompileRequest& request) {
  const Variant& variant = request.variant;
  Fingerprint key;
  key.add("schema", kCodeSchema);
  key.add("op", variant.op).add("kernel", variant.kernel).add("backend", variant.backend);
  key.add("tier", static_cast<std::int64_t>(variant.tier));
  key.add("dtypes", to_string(variant.dtypes));
  add_values(key, "values", variant.values);
  add_values(key, "baked", variant.baked);
  add_list(key, "options", request.kernel->options);
  add_launch(key, request.kernel->launch);

  OPFORGE_ASSIGN(ToolchainStamp stamp, toolchain.stamp());
  key.add("toolchain", stamp.name).add("version", stamp.version).add("digest", stamp.digest);

  const Target& target = request.target;
  key.add("target", target.name).add("device", static_cast<std::int64_t>(target.device));
  key.add("arch", static_cast<std::int64_t>(target.arch));
  key.add("kind", static_cast<std::int64_t>(target.arch_specific ? 1 : 0) | (target.ptx ? 2 : 0));

  OPFORGE_TRY(toolchain.fingerprint(request, key));
  request.code_key = key.finish();
  return request.code_key;
}

}  // namespace opforge
