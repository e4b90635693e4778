// Triton kernels: launch records from recorded answers, and the compiler itself where its
// environment is installed.
#include <gtest/gtest.h>

#include "artifact/cubin.hpp"
#include "backends/triton/record.hpp"
#include "toolchain/dsl_fixture.hpp"

namespace opforge {
Toolchain* opforge_toolchain_triton();
}

namespace opforge::test {
namespace {

constexpr std::string_view kScaleTriton = R"(import triton
import triton.language as tl
import numbers_of


@triton.jit
def scale_rows(x, y, n, x_stride, y_stride, alpha, BLOCK: tl.constexpr, negate: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * x_stride + at, mask=at < n).to(tl.float32) * alpha * numbers_of.FACTOR
    if negate:
        v = -v
    tl.store(y + row * y_stride + at, v.to(y.dtype.element_ty), mask=at < n)
)";

Operator triton_op(const Path& folder) {
  Operator op = scale_rows(folder);
  put(folder / "triton.py", kScaleTriton);
  put(folder / "numbers_of.py", "import triton.language as tl\nFACTOR = tl.constexpr(1.0)\n");
  KernelDecl& kernel = op.kernels[0];
  kernel.id = "scale_rows.triton";
  kernel.backend = "triton";
  kernel.sources = {"triton.py"};
  kernel.tunables = {{"BLOCK", {64, 1024}, "64", false, false},
                     {"NUM_WARPS", {1, 4}, "4", false, false},
                     {"D16", {0, 1}, "", false, true}};
  kernel.options = {"num_warps=NUM_WARPS", "divisible_by_16(D16)=x,y,n,x_stride,y_stride",
                    "equal_to_1(0)=n"};
  LaunchStep step;
  step.entry = "scale_rows";
  step.bindings = {bind("x", ParamType::kPtr, "x"),
                   bind("y", ParamType::kPtr, "y"),
                   bind("n", ParamType::kI32, "N"),
                   bind("x_stride", ParamType::kI64, "x.stride0"),
                   bind("y_stride", ParamType::kI64, "y.stride0"),
                   bind("alpha", ParamType::kF32, "alpha")};
  step.grid[0] = "M";
  kernel.launch.steps = {step};
  kernel.launch.guards = {{"N <= BLOCK", "the row does not fit"}};
  return op;
}

CompileRequest request_of(const Operator& op, const char* target = "sm_90a", int d16 = 1) {
  CompileRequest request;
  request.op = &op;
  request.kernel = &op.kernels[0];
  request.variant = cpu_variant(op, target, DType::kBF16);
  request.variant.backend = "triton";
  request.variant.values = {
      {"BLOCK", std::int64_t{1024}}, {"NUM_WARPS", std::int64_t{4}}, {"D16", std::int64_t{d16}}};
  request.target = *parse_target(target);
  return request;
}

nlohmann::json plain_answer() {
  return nlohmann::json::parse(R"({
    "name": "scale_rows", "num_warps": 12, "warp_size": 32, "shared": 4096, "num_ctas": 1,
    "cooperative": false, "pdl": false, "scratch": 0, "scratch_align": 1, "profile_scratch": 0,
    "descriptors": [],
    "params": [["x", "ptr"], ["y", "ptr"], ["n", "i32"], ["x_stride", "i64"], ["y_stride", "i64"],
               ["alpha", "f32"], ["global_scratch", "ptr"], ["profile_scratch", "ptr"]]})");
}

std::vector<std::string> guards_of(const LaunchRecord& record) {
  std::vector<std::string> out;
  for (const Guard& guard : record.guards) out.push_back(guard.expr);
  return out;
}

TEST(TritonRecord, MetadataFillsTheRecordAndPromisesBecomeGuards) {
  Folder folder;
  const Operator op = triton_op(folder.path());
  const auto record = triton::launch_record(request_of(op), plain_answer());
  ASSERT_TRUE(record) << record.error().message;
  const LaunchStep& step = record->steps[0];
  EXPECT_EQ(step.block[0], "384");  // of the metadata, not of the option
  EXPECT_EQ(step.shared_bytes, "4096");
  ASSERT_EQ(step.bindings.size(), 8u);
  EXPECT_EQ(step.bindings[6].value, "null");
  EXPECT_EQ(guards_of(*record), (std::vector<std::string>{
                                    "N <= BLOCK", "x.align >= 16", "y.align >= 16", "(N) % 16 == 0",
                                    "(x.stride0) % 16 == 0", "(y.stride0) % 16 == 0"}));
  const auto general = triton::launch_record(request_of(op, "sm_90a", 0), plain_answer());
  EXPECT_EQ(guards_of(*general), std::vector<std::string>{"N <= BLOCK"});
}

TEST(TritonRecord, OnesLeaveTheListAndAreGuarded) {
  Folder folder;
  Operator op = triton_op(folder.path());
  op.kernels[0].options[2] = "equal_to_1(D16)=n";
  nlohmann::json answer = plain_answer();
  answer["params"].erase(2);
  const auto record = triton::launch_record(request_of(op), answer);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->steps[0].bindings.size(), 7u);
  EXPECT_EQ(guards_of(*record).back(), "(N) == 1");
}

TEST(TritonRecord, ScratchIsWorkspaceAndClustersMultiplyTheGrid) {
  Folder folder;
  Operator op = triton_op(folder.path());
  nlohmann::json answer = plain_answer();
  answer["scratch"] = 384;
  answer["scratch_align"] = 128;
  answer["num_ctas"] = 2;
  auto record = triton::launch_record(request_of(op), answer);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->steps[0].grid[0], "2 * (M)");
  EXPECT_EQ(record->steps[0].cluster[0], "2");
  EXPECT_EQ(record->workspace_bytes, "384 * (2 * (M))");
  EXPECT_EQ(record->steps[0].bindings[6].value, "workspace");
  op.kernels[0].launch.workspace_bytes = "4 * M";
  record = triton::launch_record(request_of(op), answer);
  EXPECT_EQ(record->steps[0].bindings[6].value, "workspace + round_up(4 * M, 128)");
  EXPECT_EQ(record->workspace_bytes, "round_up(4 * M, 128) + 384 * (2 * (M))");
}

// The probe's answer for tensordesc<fp16[64,128]> on sm_90: half the box, swizzled.
TEST(TritonRecord, DescriptorsTakeBoxAndSwizzleFromTheMetadata) {
  Folder folder;
  Operator op = triton_op(folder.path());
  Binding map = bind("x", ParamType::kTensorMap, "");
  map.tensor_map.base = "x";
  map.tensor_map.element = "bf16";
  map.tensor_map.dims = {"N", "M"};
  map.tensor_map.strides = {"x.stride0 * x.itemsize"};
  map.tensor_map.box = {"128", "64"};
  op.kernels[0].launch.steps[0].bindings[0] = map;
  op.kernels[0].options = {"num_warps=NUM_WARPS"};
  const auto job = triton::question(request_of(op));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ((*job)["params"][0][1], "tensordesc<bf16[64,128]>");
  nlohmann::json answer = plain_answer();
  answer["params"].erase(0);
  auto params = nlohmann::json::parse(
      R"([["x", "tensor_map"], ["x.shape0", "i32"], ["x.shape1", "i32"], ["x.stride0", "i64"],
          ["x.stride1", "i64"]])");
  params.insert(params.end(), answer["params"].begin(), answer["params"].end());
  answer["params"] = params;
  answer["descriptors"] = nlohmann::json::parse(
      R"([{"swizzle": 3, "elem_size": 2, "elem_type": 9, "block_size": [64, 64],
           "fp4_padded": false, "is_im2col": false}])");
  auto record = triton::launch_record(request_of(op), answer);
  ASSERT_TRUE(record) << record.error().message;
  const auto& bindings = record->steps[0].bindings;
  EXPECT_EQ(bindings[0].tensor_map.box, (std::vector<std::string>{"64", "64"}));
  EXPECT_EQ(bindings[0].tensor_map.swizzle, 3);
  EXPECT_EQ(bindings[1].value, "M");
  EXPECT_EQ(bindings[2].value, "N");
  EXPECT_EQ(bindings[3].value, "(x.stride0 * x.itemsize) / x.itemsize");
  EXPECT_EQ(bindings[4].value, "1");
  answer["descriptors"][0]["elem_type"] = 6;  // f16
  EXPECT_FALSE(triton::launch_record(request_of(op), answer));
}

TEST(TritonRecord, WhatDoesNotFitIsRefused) {
  Folder folder;
  Operator op = triton_op(folder.path());
  const auto refused = [&](const std::string& option, std::string_view part) {
    Operator changed = op;
    changed.kernels[0].options.push_back(option);
    auto job = triton::question(request_of(changed));
    if (job) {
      if (const auto record = triton::launch_record(request_of(changed), plain_answer()); !record)
        job = fail(record.error());
    }
    ASSERT_FALSE(job) << option;
    EXPECT_EQ(job.error().code, Code::kInvalidDeclaration);
    EXPECT_NE(job.error().message.find(part), std::string::npos) << job.error().message;
  };
  refused("num_wraps=4", "unknown option 'num_wraps' of triton; there are num_warps");
  refused("num_warps", "must be name=expression");
  refused("num_warps=WARPS", "WARPS");
  refused("divisible_by_16=x", "needs its condition");
  refused("divisible_by_16(1)=z", "names 'z'");
  refused("divisible_by_16(1)=alpha", "no pointer or integer");
  refused("equal_to_1(1)=x", "no integer");
  nlohmann::json other = plain_answer();
  other["params"][2][1] = "i64";
  auto record = triton::launch_record(request_of(op), other);
  ASSERT_FALSE(record);
  EXPECT_NE(record.error().message.find("compiled as i64, and is declared as i32"),
            std::string::npos);
  record = triton::launch_record(request_of(op), {{"params", "nonsense"}});
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kToolchain);
}

class Triton : public testing::Test {
 protected:
  void SetUp() override {
    if (const Support support = toolchain().available(); !support) GTEST_SKIP() << support.reason();
    develop();
  }
  static Toolchain& toolchain() { return *opforge_toolchain_triton(); }
  static Result<Compiled> compile(CompileRequest request) {
    OPFORGE_TRY(code_key(toolchain(), request));
    return toolchain().compile(request);
  }
  static void expect_error(const Result<Compiled>& compiled, std::string_view part) {
    ASSERT_FALSE(compiled) << part;
    EXPECT_NE(compiled.error().message.find(part), std::string::npos) << compiled.error().message;
  }
  Folder folder_;
};

TEST_F(Triton, CompilesForEveryTargetWithoutADevice) {
  const Operator op = triton_op(folder_.path());
  for (const char* target : {"sm_80", "sm_90a", "sm_100a", "gfx942"}) {
    const auto compiled = compile(request_of(op, target));
    ASSERT_TRUE(compiled) << compiled.error().message;
    const bool hip = std::string_view(target) == "gfx942";
    EXPECT_EQ(compiled->kind, hip ? CodeKind::kHsaco : CodeKind::kCubin);
    EXPECT_EQ(compiled->symbols.at("scale_rows"), "scale_rows");
    EXPECT_EQ(compiled->launch.steps[0].block[0], hip ? "256" : "128");
    if (hip) continue;
    EXPECT_EQ(read_cubin(compiled->code)->find("scale_rows")->params.size(), 8u);
  }
}

TEST_F(Triton, SameBytesFromTwoFolders) {
  Folder second;
  const Operator one = triton_op(folder_.path()), two = triton_op(second / "deep/down");
  const auto a = compile(request_of(one)), b = compile(request_of(two));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(sha256(std::string_view(a->code)), sha256(std::string_view(b->code)));
  EXPECT_EQ(a->code.find(folder_.path().string()), std::string::npos);
}

// A constant that is read through a module's attribute is not in Triton's own cache key.
TEST_F(Triton, HelperThatChangedIsCompiledAnew) {
  const Operator op = triton_op(folder_.path());
  CompileRequest request = request_of(op);
  const Digest before = *code_key(toolchain(), request);
  const auto first = compile(request);
  put(folder_ / "numbers_of.py", "import triton.language as tl\nFACTOR = tl.constexpr(3.0)\n");
  EXPECT_NE(*code_key(toolchain(), request), before);
  const auto second = compile(request);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->code, second->code);
}

TEST_F(Triton, WhatIsWrongIsNamedAndNothingComesOut) {
  Operator op = triton_op(folder_.path());
  CompileRequest request = request_of(op);
  request.variant.values["NUM_WARPS"] = std::int64_t{64};
  expect_error(compile(request), "num_warps=64: a power of two, at most 32");
  request.variant.values["NUM_WARPS"] = std::int64_t{3};
  expect_error(compile(request), "num_warps=3");
  op.kernels[0].launch.steps[0].bindings.pop_back();
  expect_error(compile(request_of(op)), "'alpha' of scale_rows has no binding");
  op = triton_op(folder_.path());
  op.kernels[0].launch.steps[0].bindings.push_back(bind("beta", ParamType::kF32, "alpha"));
  expect_error(compile(request_of(op)), "binds 'beta', which is no parameter");
  op = triton_op(folder_.path());
  op.kernels[0].launch.steps[0].entry = "scale_row";
  expect_error(compile(request_of(op)), "no function 'scale_row'");
  op = triton_op(folder_.path());
  std::string text(kScaleTriton);
  text.replace(text.find("tl.arange(0, BLOCK)"), 19, "tl.arange(0, BLOCK + 1)");
  put(folder_ / "triton.py", text);
  expect_error(compile(request_of(op)), "power of 2");
  text.replace(text.find("alpha * numbers_of"), 5, "gamma");
  put(folder_ / "triton.py", text);
  const auto compiled = compile(request_of(op));
  expect_error(compiled, "triton");
  put(folder_ / "triton.py", "def f(:\n");
  expect_error(compile(request_of(op)), "triton.py:1");
}

}  // namespace
}  // namespace opforge::test
