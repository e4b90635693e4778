// What the declarations of the cross entropy and its gradient share.
#pragma once

#include <string>
#include <vector>

#include "operator/operator.hpp"

namespace opforge::loss {

inline std::vector<AttrArg> attributes() {
  return {
      {.name = "ignore_index", .type = AttrType::kInt, .default_value = Value{std::int64_t{-100}}},
      {.name = "label_smoothing",
       .type = AttrType::kFloat,
       .default_value = Value{0.0},
       .min = 0.0,
       .max = 1.0},
      {.name = "z_loss", .type = AttrType::kFloat, .default_value = Value{0.0}, .min = 0.0}};
}

// One step of a kernel: pointers and row vectors in order, then `matrices` with both strides, then
// the attributes.
inline KernelDecl kernel(const std::string& entry, const std::string& backend,
                         const std::vector<std::string>& tensors,
                         const std::vector<std::string>& matrices) {
  KernelDecl kernel{.id = entry + "." + backend,
                    .description = "a row at a time, whatever its length",
                    .backend = backend,
                    .tier = Tier::kDeterministic};
  kernel.sources = {backend == "cpu" ? "cpu.cc" : "cuda.cu"};
  kernel.tunables = {{.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true}};
  LaunchStep step{.entry = entry};
  const auto add = [&](const std::string& name, ParamType type, const std::string& value) {
    step.bindings.push_back({.name = name, .type = type, .value = value});
  };
  for (const std::string& name : tensors) add(name, ParamType::kPtr, name);
  add("columns", ParamType::kI64, "N");
  std::string contiguous;
  for (const std::string& name : tensors) {
    add(name + "_row", ParamType::kI64, name + ".stride0");
    bool matrix = false;
    for (const std::string& other : matrices) matrix = matrix || other == name;
    if (!matrix) continue;
    add(name + "_column", ParamType::kI64, name + ".stride1");
    contiguous += (contiguous.empty() ? "" : " && ") + name + ".stride1 == 1";
  }
  kernel.launch.guards = {{"LAYOUT == 0 || (" + contiguous + ")", "a last dim is not contiguous"}};
  add("ignore_index", ParamType::kI64, "ignore_index");
  add("label_smoothing", ParamType::kF32, "label_smoothing");
  add("z_loss", ParamType::kF32, "z_loss");
  step.grid[0] = "M";
  step.block[0] = backend == "cpu" ? "max(1, 16384 / max(1, N))" : "256";
  kernel.launch.steps = {step};
  return kernel;
}

inline std::vector<Case> cases() {
  constexpr auto kTest = unsigned(CaseUse::kTest), kBench = unsigned(CaseUse::kBench),
                 kBuild = unsigned(CaseUse::kBuild);
  const auto one = [](const char* name, std::int64_t m, std::int64_t n, double smoothing, double z,
                      unsigned uses) {
    return Case{name, {{"M", m}, {"N", n}}, {{"label_smoothing", smoothing}, {"z_loss", z}}, uses};
  };
  // Random targets are small numbers: some rows are ignored in this one.
  Case ignoring = one("64x33-ignoring", 64, 33, 0, 0, kTest);
  ignoring.attributes["ignore_index"] = std::int64_t{3};
  return {one("5x33", 5, 33, 0, 0, kTest),
          ignoring,
          one("9x1000-smooth", 9, 1000, 0.1, 0, kTest),
          one("4x4099-z", 4, 4099, 0, 1e-4, kTest),
          one("vocabulary", 3, 151936, 0.1, 1e-4, kTest),
          one("2048x151936", 2048, 151936, 0, 0, kBuild | kBench),
          one("8192x32000", 8192, 32000, 0, 0, kBench)};
}

}  // namespace opforge::loss
