// TileLang kernels: launch records from recorded answers, and the compilers themselves where the
// environment and nvcc are installed.
#include <gtest/gtest.h>

#include "artifact/cubin.hpp"
#include "backends/tilelang/record.hpp"
#include "toolchain/dsl_fixture.hpp"

namespace opforge {
Toolchain* opforge_toolchain_tilelang();
}

namespace opforge::test {
namespace {

constexpr std::string_view kScale = R"(import tilelang.language as tile
import numbers_of


def scale_rows(T, BLOCK, negate):
    rows, n = tile.dynamic("rows"), tile.dynamic("n")

    @tile.prim_func
    def scaled(x: tile.Tensor((rows, n), T), y: tile.Tensor((rows, n), T), alpha: tile.float32):
        with tile.Kernel(tile.ceildiv(n, BLOCK), rows, threads=64) as (block, row):
            for i in tile.Parallel(BLOCK):
                if block * BLOCK + i < n:
                    y[row, block * BLOCK + i] = tile.cast(
                        tile.cast(x[row, block * BLOCK + i], "float32") * alpha * numbers_of.FACTOR, T)

    return scaled
)";

Operator tile_op(const Path& folder) {
  Operator op = scale_rows(folder);
  put(folder / "tilelang.py", kScale);
  put(folder / "numbers_of.py", "FACTOR = 1.0\n");
  KernelDecl& kernel = op.kernels[0];
  kernel.id = "scale_rows.tilelang";
  kernel.backend = "tilelang";
  kernel.sources = {"tilelang.py"};
  kernel.tunables = {{"BLOCK", {64, 1024}, "64", false, false}};
  LaunchStep step;
  step.entry = "scale_rows";
  step.bindings = {bind("x", ParamType::kPtr, "x"), bind("y", ParamType::kPtr, "y"),
                   bind("rows", ParamType::kI32, "M"), bind("n", ParamType::kI32, "N"),
                   bind("alpha", ParamType::kF32, "alpha")};
  kernel.launch.steps = {step};
  kernel.launch.guards = {{"x.stride1 == 1", "not contiguous"}};
  return op;
}

CompileRequest request_of(const Operator& op, const char* target = "sm_90a") {
  CompileRequest request;
  request.op = &op;
  request.kernel = &op.kernels.front();
  request.variant = cpu_variant(op, target);
  request.variant.backend = "tilelang";
  request.variant.values = {{"BLOCK", std::int64_t{64}}};
  request.target = parse_target(target).value();
  return request;
}

nlohmann::json answer() {
  return {{"kernels",
           {{{"entry", "scaled_kernel"},
             {"grid", {"(({n} + 63) / 64)", "{rows}", "1"}},
             {"block", {"64", "1", "1"}},
             {"shared", "512"},
             {"params",
              {{{"name", "x"}, {"kind", "pointer"}, {"tensor", "x"}},
               {{"name", "y_desc"},
                {"kind", "tensor_map"},
                {"dtype", 9},
                {"tensor", "y"},
                {"dims", {"{n}", "{rows}"}},
                {"strides", {"({n} * 2)"}},
                {"box", {"64", "1"}},
                {"element_strides", {"1", "1"}},
                {"modes", {0, 3, 2, 0}}},
               {{"name", "alpha"}, {"kind", "float32"}},
               {{"name", "n"}, {"kind", "int32"}}}}}}}};
}

TEST(TileLangRecord, FollowsTheHostCode) {
  const Folder folder;
  const Operator op = tile_op(folder.path());
  const auto kernels = tilelang::launch_record(request_of(op), answer());
  ASSERT_TRUE(kernels) << kernels.error().message;
  EXPECT_EQ(kernels->entries, std::vector<std::string>{"scaled_kernel"});
  const LaunchStep& step = kernels->record.steps.at(0);
  EXPECT_EQ(step.grid[0], "(((N) + 63) / 64)");
  EXPECT_EQ(step.grid[1], "(M)");
  EXPECT_EQ(step.block[0], "64");
  EXPECT_EQ(step.shared_bytes, "512");
  ASSERT_EQ(step.bindings.size(), 4u);
  EXPECT_EQ(step.bindings[0].value, "x");
  const TensorMapSpec& map = step.bindings[1].tensor_map;
  EXPECT_EQ(map.base, "y");
  EXPECT_EQ(map.element, "bf16");
  EXPECT_EQ(map.dims, (std::vector<std::string>{"(N)", "(M)"}));
  EXPECT_EQ(map.strides, std::vector<std::string>{"((N) * 2)"});
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(step.bindings[2].type, ParamType::kF32);
  EXPECT_EQ(step.bindings[3].value, "N");
}

// What TileLang does not check, the record's guards do.
TEST(TileLangRecord, DescriptorsBringTheirGuards) {
  const Folder folder;
  const Operator op = tile_op(folder.path());
  const auto kernels = tilelang::launch_record(request_of(op), answer());
  ASSERT_TRUE(kernels) << kernels.error().message;
  std::vector<std::string> exprs;
  for (const Guard& guard : kernels->record.guards) exprs.push_back(guard.expr);
  EXPECT_EQ(exprs, (std::vector<std::string>{"x.stride1 == 1", "y.align >= 16",
                                             "((N) * 2) % 16 == 0", "(N) > 0", "(M) > 0"}));
}

TEST(TileLangRecord, WhatItCannotTakeOverIsNamed) {
  const Folder folder;
  Operator op = tile_op(folder.path());
  const auto message = [&](const nlohmann::json& from) {
    const auto kernels = tilelang::launch_record(request_of(op), from);
    return kernels ? std::string() : kernels.error().message;
  };
  nlohmann::json other = answer();
  other["kernels"][0]["params"][3]["name"] = "unbound";
  EXPECT_NE(message(other).find("'unbound'"), std::string::npos);
  other = answer();
  other["kernels"][0]["grid"][0] = "{rest}";
  EXPECT_NE(message(other).find("'rest'"), std::string::npos);
  other = answer();
  other["kernels"][0]["params"][0]["tensor"] = "z";
  EXPECT_NE(message(other).find("'z'"), std::string::npos);
  other = answer();
  other["kernels"][0]["params"][1]["dtype"] = 1;
  EXPECT_NE(message(other), "");
  other = answer();
  other["kernels"][0]["params"][2]["kind"] = "handle";
  EXPECT_NE(message(other).find("handle"), std::string::npos);
  EXPECT_NE(message({{"kernels", nlohmann::json::array()}}).find("launches nothing"),
            std::string::npos);
  EXPECT_NE(message({{"kernels", 7}}), "");
  EXPECT_NE(message(nlohmann::json::object()).find("another form"), std::string::npos);
}

class TileLang : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = opforge_toolchain_tilelang()->available(); !here)
      GTEST_SKIP() << here.reason();
    develop();
    op = tile_op(folder.path());
  }
  Result<Compiled> compile(const char* target = "sm_90a") {
    CompileRequest request = request_of(op, target);
    OPFORGE_TRY(code_key(*opforge_toolchain_tilelang(), request));
    key = request.code_key;
    return opforge_toolchain_tilelang()->compile(request);
  }
  Folder folder;
  Operator op;
  Digest key;
};

TEST_F(TileLang, CompilesForATargetAndSaysWhatALaunchNeeds) {
  const auto compiled = compile();
  ASSERT_TRUE(compiled) << compiled.error().message;
  const auto cubin = read_cubin(compiled->code);
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_EQ(cubin->arch, 90);
  EXPECT_NE(cubin->find("scaled_kernel"), nullptr);
  const LaunchStep& step = compiled->launch.steps.at(0);
  EXPECT_EQ(step.grid[0], "(((N) + 63) / 64)");
  EXPECT_EQ(step.grid[1], "(M)");
  EXPECT_EQ(step.bindings.size(), 5u);
  EXPECT_EQ(compile()->code, compiled->code) << "the same sources give the same bytes";
}

TEST_F(TileLang, MistakesComeBackWithTheirReason) {
  op.kernels[0].launch.steps[0].entry = "no_such_kernel";
  EXPECT_NE(compile().error().message.find("no_such_kernel"), std::string::npos);
  op.kernels[0].launch.steps[0].entry = "scale_rows";
  op.kernels[0].options = {"num_warps=4"};
  EXPECT_NE(compile().error().message.find("num_warps"), std::string::npos);
  op.kernels[0].options = {};
  put(folder / "tilelang.py",
      "import tilelang.language as tile\n\n\ndef scale_rows(T):\n    return tile.nothing\n");
  const std::string message = compile().error().message;
  EXPECT_NE(message.find("tilelang.py:5"), std::string::npos) << message;
}

TEST_F(TileLang, AHelperThatChangedIsAnotherKey) {
  CompileRequest request = request_of(op);
  ASSERT_TRUE(code_key(*opforge_toolchain_tilelang(), request));
  const Digest before = request.code_key;
  put(folder / "numbers_of.py", "FACTOR = 2.0\n");
  ASSERT_TRUE(code_key(*opforge_toolchain_tilelang(), request));
  EXPECT_NE(request.code_key, before);
}

}  // namespace
}  // namespace opforge::test
