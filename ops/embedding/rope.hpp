// What the declarations of rotary embeddings share: forward and backward turn by opposite angles.
#pragma once

#include <string>
#include <vector>

#include "operator/operator.hpp"

namespace opforge::embedding {

// `in` and `out`: names of the tensors that are turned and written.
inline void complete_rope(Operator& op, const std::string& entry, const std::string& in,
                          const std::string& out) {
  const std::vector<std::string> dims{"B", "L", "H", "D"};
  op.signature.tensors = {
      {.name = in, .dims = dims, .dtype = "T"},
      {.name = "cos", .dims = {"P", "R"}, .dtype = "f32"},
      {.name = "sin", .dims = {"P", "R"}, .dtype = "f32"},
      {.name = "positions", .dims = {"B", "L"}, .dtype = "i64", .optional = true},
      {.name = out, .dims = dims, .dtype = "T", .access = Access::kWrite, .may_alias = {in}}};
  op.signature.attributes = {
      {.name = "offset",
       .type = AttrType::kInt,
       .default_value = Value{std::int64_t{0}},
       .min = 0.0},
      {.name = "interleaved", .type = AttrType::kBool, .default_value = Value{std::int64_t{0}}}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"D"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.tolerances = {.fast = {.a = 0.5, .b = 2}, .high_precision = {.a = 0.5, .b = 2}};
  op.work = {"B * L * H * D * T.itemsize", "B * L * H * D * T.itemsize", "3 * B * L * H * D"};
  op.reference_source = "reference.cc";

  std::vector<Binding> bindings;
  const auto add = [&](const std::string& name, ParamType type, const std::string& value) {
    bindings.push_back({.name = name, .type = type, .value = value});
  };
  for (const std::string& name :
       {in, std::string("cos"), std::string("sin"), std::string("positions"), out})
    add(name, ParamType::kPtr, name);
  for (const char* name : {"B", "L", "H", "D", "P", "R"})
    add(std::string("size_") + name, ParamType::kI64, name);
  for (const std::string& name : {in, out}) {
    for (int axis = 0; axis < 4; ++axis) {
      const std::string number = std::to_string(axis);
      add(name + "_stride" + number, ParamType::kI64, name + ".stride" + number);
    }
  }
  for (const char* name : {"cos", "sin", "positions"}) {
    for (const char* axis : {"0", "1"})
      add(std::string(name) + "_stride" + axis, ParamType::kI64,
          std::string(name) + ".stride" + axis);
  }
  add("offset", ParamType::kI64, "offset");
  add("interleaved", ParamType::kI32, "interleaved");
  const auto kernel = [&](const std::string& backend, const std::string& source,
                          const std::string& grid, const std::string& block) {
    KernelDecl kernel{.id = entry + "." + backend,
                      .description = "pairs of elements turned by the angle of their position",
                      .backend = backend,
                      .tier = Tier::kDeterministic};
    kernel.sources = {source};
    LaunchStep step{.entry = entry};
    step.bindings = bindings;
    // One call of the CPU's block function never sees more than its rows.
    if (backend == "cpu")
      std::erase_if(step.bindings, [](const Binding& each) { return each.name == "size_B"; });
    step.grid[0] = grid;
    step.block[0] = block;
    kernel.launch.steps = {step};
    return kernel;
  };
  op.kernels = {kernel("cuda", "cuda.cu", "ceil_div(B * L * H * (D - min(R, D / 2)), 256)", "256"),
                kernel("cpu", "cpu.cc", "B * L", "max(1, 4096 / max(1, D))")};
  const auto one = [](const char* name, std::int64_t b, std::int64_t l, std::int64_t h,
                      std::int64_t d, std::int64_t r, unsigned uses) {
    return Case{name, {{"B", b}, {"L", l}, {"H", h}, {"D", d}, {"R", r}, {"P", l + 5}}, {}, uses};
  };
  constexpr auto kTest = unsigned(CaseUse::kTest), kBench = unsigned(CaseUse::kBench),
                 kBuild = unsigned(CaseUse::kBuild);
  op.cases = {one("partial", 2, 7, 3, 20, 4, kTest), one("all", 2, 33, 2, 64, 32, kTest),
              one("odd", 1, 5, 2, 9, 4, kTest), one("llm", 1, 4096, 32, 128, 64, kBuild | kBench)};
  Case shifted = one("shifted", 2, 6, 2, 16, 8, kTest);
  shifted.attributes = {{"offset", std::int64_t{3}}, {"interleaved", std::int64_t{1}}};
  op.cases.push_back(shifted);
  op.data_contracts = {{"cuda", "any strides"},
                       {"cpu", "any strides; fastest where D is contiguous"}};
}

}  // namespace opforge::embedding
