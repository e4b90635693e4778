// cuTile kernels: launch records from recorded answers, and the compiler itself where its
// environment is installed.
#include <gtest/gtest.h>

#include "artifact/cubin.hpp"
#include "backends/cutile/record.hpp"
#include "toolchain/dsl_fixture.hpp"

namespace opforge {
Toolchain* opforge_toolchain_cutile();
}

namespace opforge::test {
namespace {

constexpr std::string_view kScaleTile = R"(import cuda.tile as ct


@ct.kernel
def scale_rows(x, y, alpha, TILE: ct.Constant[int], negate: ct.Constant[int]):
    row = ct.bid(0)
    v = ct.astype(ct.load(x, index=(row, 0), shape=(1, TILE)), ct.float32) * alpha
    if negate:
        v = -v
    ct.store(y, index=(row, 0), tile=ct.astype(v, y.dtype))
)";

Operator tile_op(const Path& folder) {
  Operator op = scale_rows(folder);
  put(folder / "cutile.py", kScaleTile);
  KernelDecl& kernel = op.kernels[0];
  kernel.id = "scale_rows.cutile";
  kernel.backend = "cutile";
  kernel.sources = {"cutile.py"};
  kernel.tunables = {{"TILE", {64, 1024}, "64", false, false}, {"VEC", {0, 1}, "", false, true}};
  kernel.options = {"vectors(VEC)=x,y"};
  LaunchStep step;
  step.entry = "scale_rows";
  step.bindings = {bind("x", ParamType::kPtr, "x"), bind("y", ParamType::kPtr, "y"),
                   bind("alpha", ParamType::kF32, "alpha")};
  step.grid[0] = "M";
  kernel.launch.steps = {step};
  kernel.launch.guards.clear();
  return op;
}

CompileRequest request_of(const Operator& op, const char* target = "sm_90a", int vectors = 1) {
  CompileRequest request;
  request.op = &op;
  request.kernel = &op.kernels[0];
  request.variant = cpu_variant(op, target, DType::kF32);
  request.variant.values = {{"TILE", std::int64_t{1024}}, {"VEC", std::int64_t{vectors}}};
  request.target = *parse_target(target);
  return request;
}

TEST(CutileRecord, ArraysAreSpreadAndPromisesAreGuards) {
  Folder folder;
  const Operator op = tile_op(folder.path());
  const auto answer = nlohmann::json::parse(
      R"({"name": "scale_rows", "params": [["x", "ptr"], ["x.dim0", "i32"], ["x.dim1", "i32"],
          ["x.stride0", "i32"], ["x.stride1", "i32"], ["alpha", "f32"]]})");
  const auto record = cutile::launch_record(request_of(op), answer);
  ASSERT_TRUE(record) << record.error().message;
  const LaunchStep& step = record->steps[0];
  ASSERT_EQ(step.bindings.size(), 6u);
  EXPECT_EQ(step.bindings[3].value, "x.stride0");
  EXPECT_EQ(step.bindings[3].name, "x_stride0");
  EXPECT_EQ(step.block[0], "1");
  std::string guards;
  for (const Guard& guard : record->guards) guards += guard.expr + "; ";
  EXPECT_EQ(guards,
            "x.stride0 >= 0; x.stride1 >= 0; x.align >= 16 && x.stride1 == 1; "
            "x.stride0 * x.itemsize % 16 == 0 && x.stride0 >= 0; "
            "y.stride0 >= 0; y.stride1 >= 0; y.align >= 16 && y.stride1 == 1; "
            "y.stride0 * y.itemsize % 16 == 0 && y.stride0 >= y.dim1; ");
  EXPECT_EQ(cutile::launch_record(request_of(op, "sm_90a", 0), answer)->guards.size(), 4u);
  EXPECT_FALSE(cutile::launch_record(request_of(op), {{"params", 3}}));
}

TEST(CutileRecord, WhatDoesNotFitIsRefused) {
  Folder folder;
  const Operator op = tile_op(folder.path());
  const auto refused = [&](const Operator& changed, std::string_view part) {
    const auto job = cutile::question(request_of(changed), "sm_90");
    ASSERT_FALSE(job) << part;
    EXPECT_NE(job.error().message.find(part), std::string::npos) << job.error().message;
  };
  Operator changed = op;
  changed.kernels[0].options = {"occupancy=2"};
  refused(changed, "unknown option 'occupancy' of cutile; there are vectors");
  changed = op;
  changed.kernels[0].options = {"vectors(1)=alpha"};
  refused(changed, "'alpha', which is no array");
  changed = op;
  changed.kernels[0].launch.steps[0].bindings[0].value = "b";  // optional
  refused(changed, "whole tensors that are there");
  changed = op;
  changed.kernels[0].launch.steps.push_back(changed.kernels[0].launch.steps[0]);
  refused(changed, "one launch step");
}

class Cutile : public testing::Test {
 protected:
  void SetUp() override {
    if (const Support support = toolchain().available(); !support) GTEST_SKIP() << support.reason();
    develop();
  }
  static Toolchain& toolchain() { return *opforge_toolchain_cutile(); }
  static Result<Compiled> compile(CompileRequest request) {
    OPFORGE_TRY(code_key(toolchain(), request));
    return toolchain().compile(request);
  }
  Folder folder_;
};

TEST_F(Cutile, CompilesWithoutADeviceAndTheSameInTwoFolders) {
  // A toolkit of the machine's must not be taken for the assembler's own.
  const Setting home("CUDA_HOME", "/nowhere"), path("CUDA_PATH", "/nowhere");
  Folder second;
  const Operator one = tile_op(folder_.path()), two = tile_op(second / "deep");
  const auto a = compile(request_of(one)), b = compile(request_of(two));
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_EQ(sha256(std::string_view(a->code)), sha256(std::string_view(b->code)));
  EXPECT_EQ(a->min_driver, 13000);
  EXPECT_EQ(read_cubin(a->code)->find("scale_rows")->params.size(), 11u);
  EXPECT_TRUE(compile(request_of(one, "sm_80", 0)));
}

TEST_F(Cutile, WhatIsWrongIsNamed) {
  Operator op = tile_op(folder_.path());
  std::string text(kScaleTile);
  text.replace(text.find("shape=(1, TILE)"), 15, "shape=(1, TILE + 1)");
  put(folder_ / "cutile.py", text);
  const auto power = compile(request_of(op));
  ASSERT_FALSE(power);
  EXPECT_NE(power.error().message.find("power of two"), std::string::npos) << power.error().message;
  op = tile_op(folder_.path());
  op.kernels[0].launch.steps[0].bindings.pop_back();
  const auto unbound = compile(request_of(op));
  ASSERT_FALSE(unbound);
  EXPECT_NE(unbound.error().message.find("'alpha' of scale_rows has no binding"), std::string::npos)
      << unbound.error().message;
}

}  // namespace
}  // namespace opforge::test
