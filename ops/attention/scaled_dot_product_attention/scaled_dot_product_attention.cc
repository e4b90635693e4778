// attention.scaled_dot_product_attention: the declaration.
#include "operator/operator.hpp"

namespace opforge {

void scaled_dot_product_attention_reference(ReferenceCall& call);

namespace {

KernelDecl kernel(const std::string& backend) {
  KernelDecl kernel{.id = "attention." + backend,
                    .description = "a query at a time; scores twice where they do not fit",
                    .backend = backend,
                    .tier = Tier::kDeterministic};
  kernel.sources = {backend == "cpu" ? "cpu.cc" : "cuda.cu"};
  kernel.tunables = {{.name = "LAYOUT", .values = {0, 1}, .initial = "1", .specialisation = true}};
  LaunchStep step{.entry = "attention"};
  const auto add = [&](const std::string& name, ParamType type, const std::string& value) {
    step.bindings.push_back({.name = name, .type = type, .value = value});
  };
  for (const char* name : {"q", "k", "v", "mask", "bias", "y"}) add(name, ParamType::kPtr, name);
  add("heads", ParamType::kI64, "H * groups");
  add("group", ParamType::kI64, "groups");
  add("queries", ParamType::kI64, "L");
  add("keys", ParamType::kI64, "S");
  add("width", ParamType::kI64, "D");
  for (const char* name : {"q", "k", "v", "mask", "bias", "y"}) {
    for (int axis = 0; axis < 4; ++axis) {
      const std::string number = std::to_string(axis);
      add(name + number, ParamType::kI64, std::string(name) + ".stride" + number);
    }
  }
  add("scale", ParamType::kF32, "scale == 0.0 ? rsqrt(float(max(D, 1))) : scale");
  // A choice by L or S would be one of how to compute, so the kernel makes it: 1 lower right, 2
  // upper left.
  add("causal", ParamType::kI32, "causal == 'lower_right' ? 1 : causal == 'upper_left' ? 2 : 0");
  step.grid[0] = "B * H * groups * L";
  step.block[0] = backend == "cpu" ? "1" : "128";
  kernel.launch.steps = {step};
  kernel.launch.guards = {
      {"LAYOUT == 0 || (q.stride3 == 1 && k.stride3 == 1 && v.stride3 == 1 && y.stride3 == 1)",
       "a last dim is not contiguous"}};
  return kernel;
}

std::vector<Case> cases() {
  constexpr auto kTest = unsigned(CaseUse::kTest), kBench = unsigned(CaseUse::kBench),
                 kBuild = unsigned(CaseUse::kBuild);
  const auto one = [](const char* name, std::int64_t b, std::int64_t h, std::int64_t l,
                      std::int64_t s, std::int64_t d, ValueMap attributes, unsigned uses) {
    return Case{
        name, {{"B", b}, {"H", h}, {"L", l}, {"S", s}, {"D", d}}, std::move(attributes), uses};
  };
  const ValueMap plain, grouped{{"groups", std::int64_t{3}}};
  return {one("causal-decode", 2, 2, 3, 40, 16, {{"causal", "lower_right"}}, kTest),
          one("causal-more-queries", 1, 2, 40, 9, 16, {{"causal", "lower_right"}}, kTest),
          one("causal-upper-left", 1, 2, 20, 33, 24, {{"causal", "upper_left"}}, kTest),
          one("grouped", 2, 2, 5, 17, 64, grouped, kTest),
          one("long-keys", 1, 1, 2, 70001, 8, plain, kTest),
          one("wide-heads", 1, 1, 3, 50, 1030, plain, kTest),
          one("llm", 1, 8, 2048, 2048, 128, {{"causal", "lower_right"}}, kBuild | kBench)};
}

}  // namespace

Operator opforge_operator_attention_scaled_dot_product_attention() {
  Operator op;
  const std::vector<std::string> queries{"B", "H*groups", "L", "D"}, keys{"B", "H", "S", "D"},
      pairs{"B", "H*groups", "L", "S"};
  op.signature.name = "attention.scaled_dot_product_attention";
  op.signature.tensors = {{.name = "q", .dims = queries, .dtype = "T"},
                          {.name = "k", .dims = keys, .dtype = "T"},
                          {.name = "v", .dims = keys, .dtype = "T"},
                          {.name = "mask", .dims = pairs, .dtype = "bool", .optional = true},
                          {.name = "bias", .dims = pairs, .dtype = "T", .optional = true},
                          {.name = "y", .dims = queries, .dtype = "T", .access = Access::kWrite}};
  op.signature.attributes = {
      {.name = "groups",
       .type = AttrType::kInt,
       .default_value = Value{std::int64_t{1}},
       .min = 1.0},
      {.name = "causal",
       .type = AttrType::kText,
       .default_value = "none",
       .choices = {"none", "lower_right", "upper_left"}},
      {.name = "scale", .type = AttrType::kFloat, .default_value = Value{0.0}, .min = 0.0}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"S", "D"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "attention: softmax of scaled dot products, times the values";
  op.formula =
      "y[l] = sum_s p[l,s] v[s], p[l] = softmax over s of q[l].k[s] scale + bias[l,s], where masks "
      "let s take part";
  op.tolerances = {.fast = {.a = 0.5, .b = 80},
                   .high_precision = {.a = 0.5, .b = 80}};  // derived in README.md
  op.work = {"(B * H * groups * L * D + 2 * B * H * S * D) * T.itemsize",
             "B * H * groups * L * D * T.itemsize", "4 * B * H * groups * L * S * D"};
  op.reference = scaled_dot_product_attention_reference;
  op.reference_source = "reference.cc";
  op.kernels = {kernel("cuda"), kernel("cpu")};
  op.cases = cases();
  op.data_contracts = {{"cuda", "any strides"}, {"cpu", "fastest where D is contiguous"}};
  return op;
}

}  // namespace opforge
