// A declaration without fault, for tests to damage.
#pragma once

#include "operator/operator.hpp"

namespace opforge::testing_samples {

inline KernelDecl sample_kernel(std::string id, std::string backend, Tier tier) {
  KernelDecl kernel;
  kernel.id = std::move(id);
  kernel.backend = std::move(backend);
  kernel.tier = tier;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = {{.name = "ACC",
                      .values = {1, 2, 4, 8},
                      .initial = "min(8, next_pow2(N))",
                      .changes_bits = true},
                     {.name = "ROWS", .values = {1, 4, 16}, .initial = "M > 64 ? 16 : ACC"},
                     {.name = "ALIGNED", .values = {0, 1}, .specialisation = true}};
  kernel.constraints = {"ACC * ROWS <= 64 && T.itemsize <= 8"};
  kernel.launch.guards = {{"x.stride1 == 1", "the last dim of x is not contiguous"},
                          {"!ALIGNED || x.align >= 16", "x is not aligned to 16 bytes"}};
  LaunchStep step;
  step.entry = "row_sum";
  step.grid = {"M", "", ""};
  step.block = {"ROWS", "", ""};
  step.bindings = {{.name = "x", .value = "x"},
                   {.name = "w", .value = "w"},
                   {.name = "y", .value = "y"},
                   {.name = "rows", .type = ParamType::kI64, .value = "M"},
                   {.name = "cols", .type = ParamType::kI32, .value = "N"},
                   {.name = "stride", .type = ParamType::kI64, .value = "x.stride0"},
                   {.name = "eps", .type = ParamType::kF32, .value = "eps"}};
  kernel.launch.steps = {step};
  return kernel;
}

inline Operator sample_operator() {
  Operator op;
  Signature& s = op.signature;
  s.name = "reduction.row_sum";
  s.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
               {.name = "w", .dims = {"N"}, .dtype = "f32", .optional = true},
               {.name = "y", .dims = {"M", "1"}, .dtype = "T", .access = Access::kWrite}};
  s.attributes = {
      {.name = "eps", .type = AttrType::kFloat, .default_value = Value{1e-6}, .min = 0.0},
      {.name = "centred",
       .type = AttrType::kBool,
       .default_value = Value{std::int64_t{0}},
       .baked = true}};
  s.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}};
  s.reduced_dims = {"N"};
  s.backend_priority = {"cpu"};
  op.default_contract(Tier::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.reference = [](ReferenceCall&) {};
  op.work = {"M * N * T.itemsize", "M * T.itemsize", "M * N"};
  op.cases = {{.name = "small", .dims = {{"M", std::int64_t{3}}, {"N", std::int64_t{100}}}},
              {.name = "wide",
               .dims = {{"M", std::int64_t{100}}, {"N", std::int64_t{65537}}},
               .attributes = {{"eps", 0.5}}},
              {.name = "empty", .dims = {{"M", std::int64_t{0}}, {"N", std::int64_t{0}}}}};
  op.kernels = {sample_kernel("row_sum.cpu", "cpu", Tier::kHighPrecision),
                sample_kernel("row_sum.cpu.exact", "cpu", Tier::kDeterministic)};
  return op;
}

}  // namespace opforge::testing_samples
