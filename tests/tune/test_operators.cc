#include "tests/tune/test_operators.hpp"

#include "forge/catalogue.hpp"

namespace opforge {

void misbehave_reference(ReferenceCall& call);
void planted_reference(ReferenceCall& call);

namespace test {
namespace {

// y = 2 x over f32[M,N], contiguous; one kernel with `tunables`.
Operator doubling(const std::string& name, ReferenceFunction reference,
                  std::vector<Tunable> tunables, bool with_rows) {
  Operator op;
  op.signature.name = "test." + name;
  op.signature.tensors = {
      {.name = "x", .dims = {"M", "N"}, .dtype = "T"},
      {.name = "y", .dims = {"M", "N"}, .dtype = "T", .access = Access::kWrite}};
  op.signature.dtypes = {{{"T", DType::kF32}}};
  op.signature.backend_priority = {"cpu"};
  op.default_contract(Tier::kFast);
  op.description = "twice the input, for tests of the tuner";
  op.formula = "y = 2 x";
  op.tolerances = {.fast = {.a = 0.5, .b = 0}, .high_precision = {.a = 0.5, .b = 0}};
  op.work = {
      .bytes_read = "M * N * T.itemsize", .bytes_written = "M * N * T.itemsize", .flops = "M * N"};
  op.reference = reference;
  op.reference_source = "reference.cc";
  op.folder = "tests/tune/ops/" + name;
  op.cases = {{.name = "small", .dims = {{"M", std::int64_t{64}}, {"N", std::int64_t{32}}}}};

  KernelDecl kernel;
  kernel.id = name + ".cpu";
  kernel.description = "for tests";
  kernel.backend = "cpu";
  kernel.tier = Tier::kFast;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = std::move(tunables);
  kernel.launch.guards = {{"x.stride1 == 1 && y.stride1 == 1 && x.stride0 == N && y.stride0 == N",
                           "a tensor is not contiguous"}};
  LaunchStep step;
  step.entry = name;
  step.bindings = {{.name = "x", .type = ParamType::kPtr, .value = "x"},
                   {.name = "y", .type = ParamType::kPtr, .value = "y"}};
  if (with_rows) step.bindings.push_back({.name = "rows", .type = ParamType::kI64, .value = "M"});
  step.bindings.push_back({.name = "columns", .type = ParamType::kI64, .value = "N"});
  step.grid[0] = "M";
  step.block[0] =
      "max(M, 1)";  // all rows in one call: the times of the tests do not depend on other threads
  kernel.launch.steps = {step};
  op.kernels = {kernel};
  return op;
}

}  // namespace

Operator misbehaving_operator() {
  return doubling("misbehave", misbehave_reference,
                  {{.name = "FAULT", .values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, .initial = "0"}},
                  true);
}

Operator planted_operator() {
  return doubling("planted", planted_reference,
                  {{.name = "WORK", .values = {1000, 1089, 1100}, .initial = "1100"},
                   {.name = "TWIN", .values = {0, 1}, .initial = "0"}},
                  false);
}

Result<Catalogue> test_catalogue() {
  Catalogue catalogue;
  OPFORGE_TRY(add_operator(catalogue, misbehaving_operator()));
  OPFORGE_TRY(add_operator(catalogue, planted_operator()));
  return catalogue;
}

}  // namespace test
}  // namespace opforge
