#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/files.hpp"
#include "operator/operator.hpp"
#include "tests/operator/sample_operator.hpp"

namespace opforge {
namespace {

using testing_samples::sample_operator;
using Change = std::function<void(Operator&)>;

struct Row {
  const char* message;  // a part of it
  Change change;
};

void expect_refused(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    Operator op = sample_operator();
    row.change(op);
    const Status status = validate(op);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidDeclaration);
    EXPECT_NE(status.error().message.find(row.message), std::string::npos)
        << status.error().message;
    if (!op.signature.name.empty()) {
      EXPECT_EQ(status.error().message.find(op.signature.name), 0u) << status.error().message;
    }
  }
}

LaunchStep& step_of(Operator& op, std::size_t kernel = 0) {
  return op.kernels[kernel].launch.steps[0];
}
Binding& binding_of(Operator& op, std::string_view name) {
  for (Binding& binding : step_of(op).bindings) {
    if (binding.name == name) return binding;
  }
  return step_of(op).bindings[0];
}

TEST(Validate, ASoundDeclarationPasses) {
  Operator op = sample_operator();
  const Status status = validate(op);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(op.signature.deterministic_kernel,
            (std::map<std::string, std::string>{{"cpu", "row_sum.cpu.exact"}}));
}

TEST(Validate, TheReferenceHasATierOfItsOwn) {
  Operator op = sample_operator();
  op.kernels.pop_back();
  op.kernels[0].backend = "reference";
  op.other_tiers.clear();
  op.default_contract(Tier::kDeterministic);
  const Status status = validate(op);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(Validate, Names) {
  expect_refused({
      {"the name is empty: give it as <group>.<op>", [](Operator& op) { op.signature.name = ""; }},
      {"the name must be <group>.<op>", [](Operator& op) { op.signature.name = "row_sum"; }},
      {"the name must be <group>.<op>",
       [](Operator& op) { op.signature.name = "Reduction.row_sum"; }},
      {"the name must be <group>.<op>", [](Operator& op) { op.signature.name = "reduction."; }},
      {"the name must be <group>.<op>", [](Operator& op) { op.signature.name = "reduction.9sum"; }},
      {"the name must be <group>.<op>", [](Operator& op) { op.signature.name = "a/../b.c"; }},
      {"tensor has the bad name 'x y'", [](Operator& op) { op.signature.tensors[0].name = "x y"; }},
      {"tensor has the bad name ''", [](Operator& op) { op.signature.tensors[1].name = ""; }},
      {"two tensors are called 'x'", [](Operator& op) { op.signature.tensors[1].name = "x"; }},
      {"tensor may not be called 'workspace'",
       [](Operator& op) { op.signature.tensors[1].name = "workspace"; }},
      {"the name 'w' is used twice, for tensor and attribute",
       [](Operator& op) { op.signature.attributes[0].name = "w"; }},
      {"the name 'N' is used twice, for attribute and dim",
       [](Operator& op) { op.signature.attributes[0].name = "N"; }},
      {"two kernels have the id 'row_sum.cpu'",
       [](Operator& op) { op.kernels[1].id = "row_sum.cpu"; }},
      {"kernel id 'a b'", [](Operator& op) { op.kernels[0].id = "a b"; }},
      {"kernel id ''", [](Operator& op) { op.kernels[0].id = ""; }},
      {"two cases are called 'small'", [](Operator& op) { op.cases[1].name = "small"; }},
      {"a case has no name", [](Operator& op) { op.cases[1].name = ""; }},
  });
}

TEST(Validate, ContractAndReference) {
  expect_refused({
      {"no default contract", [](Operator& op) { op.has_default_contract = false; }},
      {"no reference: give the function", [](Operator& op) { op.reference = nullptr; }},
      {"HIGH_PRECISION is the default contract and again among the other tiers",
       [](Operator& op) { op.other_tiers.push_back(Tier::kHighPrecision); }},
      {"FAST is twice among the other tiers",
       [](Operator& op) { op.other_tiers.push_back(Tier::kFast); }},
      {"its tier DETERMINISTIC is neither the default contract (HIGH_PRECISION) nor among the "
       "other tiers",
       [](Operator& op) { op.other_tiers.pop_back(); }},
      {"are both DETERMINISTIC", [](Operator& op) { op.kernels[0].tier = Tier::kDeterministic; }},
      {"a tolerance must be finite and not negative",
       [](Operator& op) { op.tolerances.fast.a = -1; }},
      {"a tolerance must be finite",
       [](Operator& op) {
         op.tolerances.high_precision.b = std::numeric_limits<double>::quiet_NaN();
       }},
      {"a fill names 'q'", [](Operator& op) { op.fills["q"] = Fill::kUniform01; }},
  });
}

TEST(Validate, TensorsAndDtypes) {
  expect_refused({
      {"'...N' may only be the first dim",
       [](Operator& op) {
         op.signature.tensors[0].dims = {"M", "...N"};
       }},
      {"'...2*M' must be '...' and a symbol",
       [](Operator& op) { op.signature.tensors[0].dims[0] = "...2*M"; }},
      {"uses the unknown symbol 'Q'", [](Operator& op) { op.signature.tensors[1].dims = {"2*Q"}; }},
      {"dim 0 of w: expression '2*'", [](Operator& op) { op.signature.tensors[1].dims = {"2*"}; }},
      {"attribute eps in 'N*eps' is not an integer",
       [](Operator& op) { op.signature.tensors[1].dims = {"N*eps"}; }},
      {"has 9 dims; at most 8", [](Operator& op) { op.signature.tensors[1].dims.assign(9, "N"); }},
      {"may alias 'q', which is no tensor",
       [](Operator& op) { op.signature.tensors[2].may_alias = {"q"}; }},
      {"tensor y may not alias itself",
       [](Operator& op) { op.signature.tensors[2].may_alias = {"y"}; }},
      {"are only read: may_alias means nothing",
       [](Operator& op) { op.signature.tensors[0].may_alias = {"w"}; }},
      {"no tensor is written",
       [](Operator& op) { op.signature.tensors[2].access = Access::kRead; }},
      {"gives no value to float32 (is that a misspelt dtype?)",
       [](Operator& op) { op.signature.tensors[1].dtype = "float32"; }},
      {"neither a dtype nor a name for one",
       [](Operator& op) { op.signature.tensors[1].dtype = "f 32"; }},
      {"no dtype combination is allowed", [](Operator& op) { op.signature.dtypes.clear(); }},
      {"names W, which no tensor has",
       [](Operator& op) { op.signature.dtypes[0]["W"] = DType::kF32; }},
      {"'T=f32' is listed twice",
       [](Operator& op) {
         op.signature.dtypes.push_back({{"T", DType::kF32}});
       }},
      {"reduced dim 'K' is no dim of a tensor; the dims are M, N",
       [](Operator& op) { op.signature.reduced_dims = {"K"}; }},
      {"backend priority has an empty or repeated name",
       [](Operator& op) {
         op.signature.backend_priority = {"cpu", "cpu"};
       }},
  });
}

TEST(Validate, Attributes) {
  expect_refused({
      {"attribute eps has an empty range",
       [](Operator& op) { op.signature.attributes[0].max = -1.0; }},
      {"attribute eps has a bad default",
       [](Operator& op) { op.signature.attributes[0].default_value = Value{-1.0}; }},
      {"attribute eps has a bad default",
       [](Operator& op) { op.signature.attributes[0].default_value = Value{std::string("a")}; }},
      {"attribute eps has choices but is no text",
       [](Operator& op) { op.signature.attributes[0].choices = {"a"}; }},
      {"attribute eps is a float: only integers",
       [](Operator& op) { op.signature.attributes[0].baked = true; }},
      {"lists baked values but is not baked",
       [](Operator& op) { op.signature.attributes[0].baked_values = {Value{1.0}}; }},
      {"is a text without choices",
       [](Operator& op) { op.signature.attributes[1].type = AttrType::kText; }},
      {"has a bad baked value",
       [](Operator& op) { op.signature.attributes[1].baked_values = {Value{std::int64_t{3}}}; }},
      {"lists the baked value 1 twice",
       [](Operator& op) {
         op.signature.attributes[1].baked_values = {Value{std::int64_t{1}}, Value{std::int64_t{1}}};
       }},
      {"list the values that are built ahead",
       [](Operator& op) { op.signature.attributes[1].type = AttrType::kInt; }},
      {"lists a choice twice",
       [](Operator& op) {
         op.signature.attributes[1] = {
             .name = "mode", .type = AttrType::kText, .choices = {"a", "a"}};
       }},
  });
}

TEST(Validate, KernelsAndTunables) {
  expect_refused({
      {"it names no backend", [](Operator& op) { op.kernels[0].backend = ""; }},
      {"it has no source file", [](Operator& op) { op.kernels[0].sources.clear(); }},
      {"source '/etc/passwd' must be a file in the operator's folder",
       [](Operator& op) { op.kernels[0].sources = {"/etc/passwd"}; }},
      {"source '../a.cc' must be a file",
       [](Operator& op) { op.kernels[0].sources = {"../a.cc"}; }},
      {"dtypes 'T=f16' are not among the operator's",
       [](Operator& op) {
         op.kernels[0].dtypes = {{{"T", DType::kF16}}};
       }},
      {"alignment 12 must be a power of two",
       [](Operator& op) {
         op.kernels[0].preconditions = {{.kind = PreconditionKind::kAlignment, .value = 12}};
       }},
      {"alignment 0 must be a power of two",
       [](Operator& op) {
         op.kernels[0].preconditions = {{.kind = PreconditionKind::kAlignment}};
       }},
      {"lists no dtypes",
       [](Operator& op) { op.kernels[0].preconditions = {{.kind = PreconditionKind::kDTypeIn}}; }},
      {"workspace alignment 48 must be a power of two",
       [](Operator& op) { op.kernels[0].launch.workspace_align = 48; }},
      {"workspace alignment 0 must be",
       [](Operator& op) { op.kernels[0].launch.workspace_align = 0; }},
      {"the architecture window 90 to 80 is empty",
       [](Operator& op) {
         op.kernels[0].requires_any = {{DeviceKind::kCuda, 90, 80}};
       }},
      {"tunable ACC: it lists no values",
       [](Operator& op) { op.kernels[0].tunables[0].values.clear(); }},
      {"tunable ACC: its values must ascend",
       [](Operator& op) {
         op.kernels[0].tunables[0].values = {4, 2};
       }},
      {"tunable ACC: its values must ascend",
       [](Operator& op) {
         op.kernels[0].tunables[0].values = {2, 2};
       }},
      {"tunable ROWS: it needs a default",
       [](Operator& op) { op.kernels[0].tunables[1].initial = ""; }},
      {"tunable ACC: the name is already that",
       [](Operator& op) { op.kernels[0].tunables[1].name = "ACC"; }},
      {"tunable N: the name is already that",
       [](Operator& op) { op.kernels[0].tunables[1].name = "N"; }},
      {"tunable x: the name is already that",
       [](Operator& op) { op.kernels[0].tunables[1].name = "x"; }},
      {"a specialisation may not change bits",
       [](Operator& op) { op.kernels[0].tunables[2].changes_bits = true; }},
      {"uses the unknown symbol 'ALIGNED'",
       [](Operator& op) { op.kernels[0].tunables[1].initial = "ALIGNED + 1"; }},
      {"may not use 'device.sm_count' (a device property) here",
       [](Operator& op) { op.kernels[0].tunables[1].initial = "device.sm_count"; }},
      {"may not use 'x.stride0' (a stride, alignment or presence) here",
       [](Operator& op) { op.kernels[0].tunables[1].initial = "x.stride0"; }},
      {"constraint: expression 'ACC <= M' may not use 'M'",
       [](Operator& op) { op.kernels[0].constraints = {"ACC <= M"}; }},
      {"constraint: expression 'ACC <='",
       [](Operator& op) { op.kernels[0].constraints = {"ACC <="}; }},
  });
}

TEST(Validate, Launch) {
  expect_refused({
      {"it has no launch step", [](Operator& op) { op.kernels[0].launch.steps.clear(); }},
      {"entry 'row-sum' is no name of a function",
       [](Operator& op) { step_of(op).entry = "row-sum"; }},
      {"entry '' is no name", [](Operator& op) { step_of(op).entry = ""; }},
      {"two parameters are called 'x'", [](Operator& op) { binding_of(op, "w").name = "x"; }},
      {"parameter name 'a b' is no identifier",
       [](Operator& op) { binding_of(op, "w").name = "a b"; }},
      {"kernel row_sum.cpu, step 0: grid[0]: expression 'M +', column 4",
       [](Operator& op) { step_of(op).grid[0] = "M +"; }},
      {"uses the unknown symbol 'MM'; did you mean M",
       [](Operator& op) { step_of(op).grid[0] = "MM"; }},
      {"uses the unknown symbol 'x.dim2'", [](Operator& op) { step_of(op).grid[0] = "x.dim2"; }},
      {"uses the unknown symbol 'x.dim01x'",
       [](Operator& op) { step_of(op).grid[0] = "x.dim01x"; }},
      {"uses the unknown symbol 'T.bits'", [](Operator& op) { step_of(op).grid[0] = "T.bits"; }},
      {"uses the unknown symbol 'device.cores'",
       [](Operator& op) { step_of(op).grid[0] = "device.cores"; }},
      {"block[1]: expression '1 / 0', column 3: division by zero",
       [](Operator& op) { step_of(op).block[1] = "1 / 0"; }},
      {"integer overflow", [](Operator& op) { step_of(op).grid[0] = "9223372036854775807 * 2"; }},
      {"guard 0: expression 'x.stride1 = 1'",
       [](Operator& op) { op.kernels[0].launch.guards[0].expr = "x.stride1 = 1"; }},
      {"a guard has no expression", [](Operator& op) { op.kernels[0].launch.guards[0].expr = ""; }},
      {"has no reason to show when it fails",
       [](Operator& op) { op.kernels[0].launch.guards[0].reason = ""; }},
      {"parameter x has no value", [](Operator& op) { binding_of(op, "x").value = ""; }},
      {"parameter x: 'q' is no tensor of the operator; the tensors are x, w, y",
       [](Operator& op) { binding_of(op, "x").value = "q"; }},
      {"pointer value '2 * x': expected null, workspace",
       [](Operator& op) { binding_of(op, "x").value = "2 * x"; }},
      {"nothing can be added to null",
       [](Operator& op) { binding_of(op, "x").value = "null + 4"; }},
      {"uses the unknown symbol 'OFF'",
       [](Operator& op) { binding_of(op, "x").value = "x + OFF"; }},
      {"it uses the workspace, but the kernel asks for none",
       [](Operator& op) { binding_of(op, "x").value = "workspace + 64"; }},
      {"parameter cols: 4294967296 does not fit a parameter of type i32",
       [](Operator& op) { binding_of(op, "cols").value = "1024 * 4194304"; }},
      {"parameter cols: -1 does not fit a parameter of type u32",
       [](Operator& op) {
         binding_of(op, "cols").type = ParamType::kU32;
         binding_of(op, "cols").value = "-1";
       }},
      {"parameter cols: 0.5 does not fit a parameter of type i32: an integer is needed",
       [](Operator& op) { binding_of(op, "cols").value = "0.5"; }},
      {"parameter eps: 1e+300 does not fit a parameter of type f32: it would become infinite",
       [](Operator& op) { binding_of(op, "eps").value = "1e300"; }},
      {"step 0 sets memory: it needs a target",
       [](Operator& op) { step_of(op) = {.kind = StepKind::kMemset, .memset_bytes = "4"}; }},
  });
}

TEST(Validate, AggregatesAndDescriptors) {
  const auto bytes = [](std::uint32_t size, std::vector<Binding::Field> fields) {
    return [=](Operator& op) {
      binding_of(op, "eps") = {
          .name = "s", .type = ParamType::kBytes, .fields = fields, .size_bytes = size};
    };
  };
  const auto map = [](const std::function<void(TensorMapSpec&)>& change) {
    return [=](Operator& op) {
      TensorMapSpec spec{.base = "x",
                         .element = "bf16",
                         .dims = {"N", "M"},
                         .strides = {"x.stride0 * 2"},
                         .box = {"64", "ROWS"}};
      change(spec);
      binding_of(op, "eps") = {.name = "map", .type = ParamType::kTensorMap, .tensor_map = spec};
    };
  };
  for (const Change& sound :
       {Change(bytes(16, {{0, ParamType::kPtr, "x"}, {8, ParamType::kI32, "N"}})),
        Change(map([](auto&) {}))}) {
    Operator op = sample_operator();
    sound(op);
    const Status status = validate(op);
    EXPECT_TRUE(status) << status.error().message;
  }
  expect_refused({
      {"0 bytes; an aggregate has 1 to 4096", bytes(0, {})},
      {"the i64 at byte 4 is not aligned to 8", bytes(16, {{4, ParamType::kI64, "N"}})},
      {"the field at byte 8 reaches over the end (12 bytes)",
       bytes(12, {{8, ParamType::kI64, "N"}})},
      {"two fields share byte 4",
       bytes(16, {{0, ParamType::kI64, "N"}, {4, ParamType::kI32, "N"}})},
      {"a field may only be a pointer or a scalar", bytes(16, {{0, ParamType::kBytes, "N"}})},
      {"the field at byte 0 has no value", bytes(16, {{0, ParamType::kI64, ""}})},
      {"parameter s, field at byte 0: expression 'Q'", bytes(16, {{0, ParamType::kI64, "Q"}})},
      {"a descriptor has 1 to 5 dims, not 0", map([](auto& m) { m.dims.clear(); })},
      {"2 dims need 1 strides, not 2", map([](auto& m) { m.strides.push_back("1"); })},
      {"2 dims need 2 box sizes, not 1", map([](auto& m) { m.box.pop_back(); })},
      {"2 dims need 2 element strides or none, not 1",
       map([](auto& m) { m.element_strides = {"1"}; })},
      {"the descriptor has no base", map([](auto& m) { m.base = ""; })},
      {"parameter map", map([](auto& m) { m.element = "float"; })},
      {"an expression is empty", map([](auto& m) { m.box[0] = ""; })},
      {"-1 is no enumerator", map([](auto& m) { m.swizzle = -1; })},
  });
}

TEST(Validate, DeterministicKernelsDependOnReducedDimsOnly) {
  const auto exact = [](Operator& op) -> KernelDecl& { return op.kernels[1]; };
  expect_refused({
      {"kernel row_sum.cpu.exact, tunable ACC: expression 'M' may not use 'M' (a dim that is not "
       "reduced) here",
       [&](Operator& op) { exact(op).tunables[0].initial = "M"; }},
      {"may not use 'eps' (an attribute that is not baked) here",
       [&](Operator& op) { exact(op).tunables[0].initial = "eps > 0 ? 1 : 2"; }},
      {"may not use 'ROWS' (a tunable) here",
       [&](Operator& op) {
         std::swap(exact(op).tunables[0], exact(op).tunables[1]);
         exact(op).tunables[0].initial = "4";
         exact(op).tunables[1].initial = "ROWS";
       }},
      {"grid[0]: expression 'min(M, device.sm_count)' may not use 'device.sm_count' (a device "
       "property) here",
       [&](Operator& op) { step_of(op, 1).grid[0] = "min(M, device.sm_count)"; }},
      {"guard 0: expression 'device.warp_size == 32' may not use",
       [&](Operator& op) { exact(op).launch.guards[0].expr = "device.warp_size == 32"; }},
      {"block[0]: expression 'min(M, 4)' may not use 'M' (a dim that is not reduced) here",
       [&](Operator& op) { step_of(op, 1).block[0] = "min(M, 4)"; }},
      {"block[0]: expression 'x.dim0' may not use 'x.dim0' (a dim that is not reduced) here",
       [&](Operator& op) { step_of(op, 1).block[0] = "x.dim0"; }},
      {"shared bytes: expression 'x.align' may not use",
       [&](Operator& op) { step_of(op, 1).shared_bytes = "x.align"; }},
      {"parameter eps: expression 'eps / M' may not use 'M'",
       [&](Operator& op) { step_of(op, 1).bindings[6].value = "eps / M"; }},
  });
  // Without reduced dims every element is computed by itself.
  Operator elementwise = sample_operator();
  elementwise.signature.reduced_dims.clear();
  exact(elementwise).tunables[0].initial = "4";
  step_of(elementwise, 1).block[0] = "max(1, 4096 / max(N, 1))";
  const Status by_itself = validate(elementwise);
  EXPECT_TRUE(by_itself) << by_itself.error().message;
  // The same is fine where no bits are promised, and reduced dims, dtypes and baked attributes are
  // fine everywhere.
  Operator op = sample_operator();
  step_of(op).block[0] = "min(M, device.sm_count)";
  exact(op).tunables[0].initial = "centred ? 2 : T.itemsize * log2(max(N, 1))";
  step_of(op, 1).block[0] = "next_pow2(N)";
  exact(op).launch.workspace_bytes = "M * 4";
  const Status status = validate(op);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(Validate, CasesEvaluateEveryExpression) {
  const std::int64_t big = std::int64_t{1} << 40;
  expect_refused({
      {"case small: kernel row_sum.cpu, step 0: grid[0]: expression 'M / (N - 100)', column 3: "
       "division by zero",
       [](Operator& op) { step_of(op).grid[0] = "M / (N - 100)"; }},
      {"integer overflow",
       [](Operator& op) { step_of(op).shared_bytes = "M * 4611686018427387904 * 4"; }},
      {"texts only compare", [](Operator& op) { binding_of(op, "cols").value = "T + 1"; }},
      {"an integer is needed but it gives the float",
       [](Operator& op) { binding_of(op, "cols").value = "eps"; }},
      {"'3 - M - 1' is negative (-1)", [](Operator& op) { step_of(op).grid[0] = "3 - M - 1"; }},
      {"tunable ROWS: expression 'ACC / (M - 3)'",
       [](Operator& op) { op.kernels[0].tunables[1].initial = "ACC / (M - 3)"; }},
      {"case small: work model: expression 'M / (M - 3)'",
       [](Operator& op) { op.work.flops = "M / (M - 3)"; }},
      {"work model, flops: expression 'x.align' may not use",
       [](Operator& op) { op.work.flops = "x.align"; }},
      {"case small: 'K' is no dim", [](Operator& op) { op.cases[0].dims["K"] = std::int64_t{1}; }},
      {"case small: expression 'N', column 1: 'N' is not a symbol",
       [](Operator& op) { op.cases[0].dims.erase("N"); }},
      {"case small: reduction.row_sum has no attribute 'epz'",
       [](Operator& op) { op.cases[0].attributes["epz"] = 1.0; }},
      {"case small: reduction.row_sum: attribute eps must be at least 0",
       [](Operator& op) { op.cases[0].attributes["eps"] = -1.0; }},
      {"case small: reduction.row_sum: case small: dim N of x is -1",
       [](Operator& op) { op.cases[0].dims["N"] = std::int64_t{-1}; }},
      {"has more than",
       [=](Operator& op) {
         op.cases[0].dims = {{"M", big}, {"N", big}};
       }},
  });
  // Where a guard does not hold, the rest need not make sense.
  Operator op = sample_operator();
  op.kernels[0].launch.guards.push_back({"N > 100", "too narrow"});
  step_of(op).grid[0] = "N > 60000 ? M : M / (N - 100)";
  const Status status = validate(op);
  EXPECT_TRUE(status) << status.error().message;
}

TEST(Validate, FilesOfTheFolder) {
  const auto folder = TempDir::create(std::filesystem::temp_directory_path());
  ASSERT_TRUE(folder);
  Operator op = sample_operator();
  op.folder = folder->path();
  const auto message = [&] {
    Operator copy = op;
    const Status status = validate(copy);
    return status ? std::string() : status.error().message;
  };
  EXPECT_NE(message().find("no reference source"), std::string::npos);
  op.reference_source = "reference.cc";
  EXPECT_NE(message().find("the reference source reference.cc is not in "), std::string::npos);
  ASSERT_TRUE(write_file_atomic(folder->path() / "reference.cc", "//"));
  EXPECT_NE(message().find("kernel row_sum.cpu: source cpu.cc is not in "), std::string::npos);
  ASSERT_TRUE(write_file_atomic(folder->path() / "cpu.cc", "//"));
  EXPECT_EQ(message(), "");
}

TEST(Catalogue, FindsAndOffersNames) {
  Catalogue catalogue;
  const auto empty = catalogue.get("a.b");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kNotFound);
  ASSERT_TRUE(catalogue.add(sample_operator()));
  const Status again = catalogue.add(sample_operator());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalidDeclaration);
  EXPECT_NE(again.error().message.find("reduction.row_sum is declared twice"), std::string::npos);
  EXPECT_NE(catalogue.find("reduction.row_sum"), nullptr);
  EXPECT_EQ(catalogue.find("reduction.row_sums"), nullptr);
  const auto near = catalogue.get("reduction.row_sums");
  ASSERT_FALSE(near);
  EXPECT_NE(near.error().message.find("did you mean reduction.row_sum?"), std::string::npos);
  Operator other = sample_operator();
  other.signature.name = "elementwise.a";
  ASSERT_TRUE(catalogue.add(other));
  ASSERT_EQ(catalogue.all().size(), 2u);
  EXPECT_EQ(catalogue.all()[0]->signature.name, "elementwise.a");
  Operator broken = sample_operator();
  broken.signature.name = "elementwise.b";
  broken.reference = nullptr;
  EXPECT_FALSE(catalogue.add(broken));
  EXPECT_EQ(catalogue.find("elementwise.b"), nullptr);
}

}  // namespace
}  // namespace opforge
