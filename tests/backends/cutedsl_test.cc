// CuTe DSL kernels: launch records from recorded answers, and the compiler itself where its
// environment is installed.
#include <gtest/gtest.h>

#include "artifact/cubin.hpp"
#include "backends/cutedsl/record.hpp"
#include "toolchain/dsl_fixture.hpp"

namespace opforge {
Toolchain* opforge_toolchain_cutedsl();
}

namespace opforge::test {
namespace {

constexpr std::string_view kScale = R"(import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64
import numbers_of


def scale_rows(T, THREADS):
    @cute.kernel
    def device(x: cute.Pointer, y: cute.Pointer, n: Int64, alpha: Float32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        i = Int64(block) * THREADS + thread
        if i < n:
            source = cute.make_tensor(x, cute.make_layout(n))
            target = cute.make_tensor(y, cute.make_layout(n))
            target[i] = (source[i].to(Float32) * alpha * Float32(numbers_of.FACTOR)).to(T)

    @cute.jit
    def host(x: cute.Pointer, y: cute.Pointer, n: Int64, alpha: Float32, stream):
        device(x, y, n, alpha).launch(grid=[Int32(n), 1, 1], block=[THREADS, 1, 1], stream=stream)

    return host
)";

Operator cute_op(const Path& folder) {
  Operator op = scale_rows(folder);
  put(folder / "cutedsl.py", kScale);
  put(folder / "numbers_of.py", "FACTOR = 1.0\n");
  KernelDecl& kernel = op.kernels[0];
  kernel.id = "scale_rows.cutedsl";
  kernel.backend = "cutedsl";
  kernel.sources = {"cutedsl.py"};
  kernel.tunables = {{"THREADS", {64, 128}, "64", false, false}};
  LaunchStep step;
  step.entry = "scale_rows";
  step.bindings = {bind("x", ParamType::kPtr, "x"), bind("y", ParamType::kPtr, "y"),
                   bind("n", ParamType::kI64, "M * N"), bind("alpha", ParamType::kF32, "alpha")};
  step.grid[0] = "ceil_div(M * N, THREADS)";
  step.block[0] = "THREADS";
  kernel.launch.steps = {step};
  kernel.launch.guards = {};
  return op;
}

CompileRequest request_of(const Operator& op, const char* target = "sm_90a") {
  CompileRequest request;
  request.op = &op;
  request.kernel = &op.kernels.front();
  request.variant = cpu_variant(op, target);
  request.variant.backend = "cutedsl";
  request.variant.values = {{"THREADS", std::int64_t{64}}};
  request.target = parse_target(target).value();
  return request;
}

TEST(CuteDslRecord, AsksWithTypesOfTheBindings) {
  const Folder folder;
  const Operator op = cute_op(folder.path());
  const auto job = cutedsl::question(request_of(op));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->at("params").dump(),
            R"([["x","ptr:f32",16],["y","ptr:f32",16],["n","i64",0],["alpha","f32",0]])");
}

TEST(CuteDslRecord, BlockAndGuardsComeFromTheAnswer) {
  const Folder folder;
  const Operator op = cute_op(folder.path());
  const auto record =
      cutedsl::launch_record(request_of(op), {{"block", {64, 1, 1}}, {"shared", 1024}});
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->steps[0].block[0], "64");
  EXPECT_EQ(record->steps[0].shared_bytes, "1024");
  ASSERT_EQ(record->guards.size(), 2u);
  EXPECT_EQ(record->guards[0].expr, "x.align >= 16");
  EXPECT_EQ(record->guards[1].expr, "y.align >= 16");
}

TEST(CuteDslRecord, AnswersThatDoNotFitAreRefused) {
  const Folder folder;
  Operator op = cute_op(folder.path());
  const auto refused = [&](const nlohmann::json& from) {
    const auto record = cutedsl::launch_record(request_of(op), from);
    return record ? std::string() : record.error().message;
  };
  EXPECT_NE(refused({{"block", {128, 1, 1}}, {"shared", 0}}).find("declaration says 64"),
            std::string::npos);
  EXPECT_NE(refused({{"block", {64, 1}}, {"shared", 0}}), "");
  EXPECT_NE(refused({{"shared", 0}}).find("another form"), std::string::npos);
  EXPECT_NE(refused({{"block", {64, 1, 1}}, {"shared", -1}}), "");
  op.kernels[0].options = {"num_warps=4"};
  const auto job = cutedsl::question(request_of(op));
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("num_warps"), std::string::npos);
  op.kernels[0].options = {};
  op.kernels[0].launch.steps[0].bindings[2].type = ParamType::kF16;
  EXPECT_FALSE(cutedsl::question(request_of(op)));
}

class CuteDsl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = opforge_toolchain_cutedsl()->available(); !here)
      GTEST_SKIP() << here.reason();
    develop();
    op = cute_op(folder.path());
  }
  Result<Compiled> compile(const char* target = "sm_90a") {
    CompileRequest request = request_of(op, target);
    OPFORGE_TRY(code_key(*opforge_toolchain_cutedsl(), request));
    return opforge_toolchain_cutedsl()->compile(request);
  }
  std::string message() {
    const auto compiled = compile();
    return compiled ? "" : compiled.error().message;
  }
  Folder folder;
  Operator op;
};

TEST_F(CuteDsl, CompilesForEachTargetAndIsTheSameTwice) {
  for (const auto& [name, arch] : {std::pair{"sm_90a", 90}, std::pair{"sm_80", 80}}) {
    const auto compiled = compile(name);
    ASSERT_TRUE(compiled) << compiled.error().message;
    const auto cubin = read_cubin(compiled->code);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(cubin->arch, arch);
    EXPECT_NE(cubin->find(compiled->symbols.at("scale_rows")), nullptr);
    const auto again = compile(name);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(again->code == compiled->code);
  }
}

TEST_F(CuteDsl, MistakesComeBackWithTheirReason) {
  op.kernels[0].launch.steps[0].bindings[2].name = "count";
  EXPECT_NE(message().find("the host function takes x, y, n, alpha"), std::string::npos)
      << message();
  op.kernels[0].launch.steps[0].bindings[2].name = "n";
  op.kernels[0].launch.steps[0].entry = "nothing";
  EXPECT_NE(message().find("no function 'nothing'"), std::string::npos) << message();
  op.kernels[0].launch.steps[0].entry = "scale_rows";
  std::string clusters(kScale);
  const std::string plain = "block=[THREADS, 1, 1], stream";
  clusters.replace(clusters.find(plain), plain.size(),
                   "block=[THREADS, 1, 1], cluster=[2, 1, 1], stream");
  put(folder / "cutedsl.py", clusters);
  EXPECT_NE(message().find("attribute"), std::string::npos) << message();
  put(folder / "cutedsl.py", "def scale_rows(T):\n    return missing\n");
  EXPECT_NE(message().find("cutedsl.py:2"), std::string::npos) << message();
}

}  // namespace
}  // namespace opforge::test
