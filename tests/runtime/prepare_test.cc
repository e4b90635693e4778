// Launch records evaluated for a call: every number of the fixtures, which are worked out by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "fixtures/launch_fixtures.hpp"
#include "runtime/arguments.hpp"
#include "runtime/plan.hpp"

namespace opforge {
namespace {

using fixtures::LaunchFixture;

class PrepareFixture : public testing::TestWithParam<LaunchFixture> {};

void check_map(const fixtures::ExpectedMap& expected, const PreparedStep::MapPatch& map,
               void* const* tensors) {
  EXPECT_EQ(
      reinterpret_cast<std::uint64_t>(patched_pointer(map.tensor, map.add_bytes, tensors, nullptr)),
      expected.address);
  EXPECT_EQ(map.dims, expected.dims);
  EXPECT_EQ(map.strides_bytes, expected.strides_bytes);
  EXPECT_EQ(map.box, expected.box);
  EXPECT_EQ(map.element_strides, expected.element_strides);
  EXPECT_EQ(map.interleave, expected.interleave);
  EXPECT_EQ(map.swizzle, expected.swizzle);
  EXPECT_EQ(map.l2_promotion, expected.l2_promotion);
  EXPECT_EQ(map.oob_fill, expected.oob_fill);
}

TEST_P(PrepareFixture, EveryNumberOfTheLaunch) {
  const LaunchFixture& f = GetParam();
  const auto call = bind_call(f.signature, f.tensors, f.attributes);
  ASSERT_TRUE(call) << call.error().message;
  const auto launch = prepare_launch(f.signature, *call, f.record, f.values, f.device);
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_EQ(launch->workspace_bytes, f.workspace_bytes);
  ASSERT_EQ(launch->steps.size(), f.steps.size());
  std::vector<void*> data;
  for (const TensorView& view : f.tensors) data.push_back(view.data);
  auto* workspace = reinterpret_cast<void*>(fixtures::kWorkspaceAddress);
  for (std::size_t s = 0; s < f.steps.size(); ++s) {
    SCOPED_TRACE("step " + std::to_string(s));
    const auto& expected = f.steps[s];
    const PreparedStep& step = launch->steps[s];
    EXPECT_EQ(step.kind == StepKind::kMemset, expected.is_memset);
    if (expected.is_memset) {
      const void* target =
          patched_pointer(step.memset_tensor, step.memset_add_bytes, data.data(), workspace);
      EXPECT_EQ(reinterpret_cast<std::uint64_t>(target), expected.memset_address);
      EXPECT_EQ(step.memset_bytes, static_cast<std::int64_t>(expected.memset_bytes));
      EXPECT_EQ(step.memset_value, expected.memset_value);
      continue;
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(step.grid[axis], expected.grid[axis]);
      EXPECT_EQ(step.block[axis], expected.block[axis]);
      EXPECT_EQ(step.cluster[axis], expected.cluster[axis]);
    }
    EXPECT_EQ(step.shared_bytes, expected.shared_bytes);
    EXPECT_EQ(step.cooperative, expected.cooperative);
    EXPECT_EQ(step.programmatic, expected.programmatic);
    ASSERT_EQ(step.param_offsets.size(), expected.params.size());
    ArgumentBlock block(step, data.data(), workspace);
    std::size_t map = 0;
    for (std::size_t p = 0; p < expected.params.size(); ++p) {
      SCOPED_TRACE("parameter " + expected.params[p].name);
      EXPECT_EQ(step.param_sizes[p], expected.params[p].bytes.size());
      EXPECT_EQ(step.param_offsets[p] % (expected.params[p].is_map ? 64 : 8), 0u);
      if (expected.params[p].is_map) {
        ASSERT_LT(map, step.maps.size());
        EXPECT_EQ(step.maps[map].offset_bytes, step.param_offsets[p]);
        check_map(expected.params[p].map, step.maps[map++], data.data());
        continue;
      }
      EXPECT_EQ(std::memcmp(block.data() + step.param_offsets[p], expected.params[p].bytes.data(),
                            expected.params[p].bytes.size()),
                0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PrepareFixture,
                         testing::ValuesIn(fixtures::all_launch_fixtures()),
                         [](const auto& info) { return info.param.name; });

// One kernel with one parameter, for faults.
struct Small {
  LaunchFixture f = fixtures::cuda_programmatic();
  Small() {
    f.record.steps.resize(1);
    f.record.steps[0].bindings.resize(1);
    f.record.steps[0].entry = "run";
  }
  Binding& binding() { return f.record.steps[0].bindings[0]; }
  Result<PreparedLaunch> prepare() {
    const auto call = bind_call(f.signature, f.tensors, f.attributes);
    return prepare_launch(f.signature, *call, f.record, f.values, f.device);
  }
  // The error's text; "" when there is none.
  std::string error() {
    const auto launch = prepare();
    return launch ? "" : launch.error().message;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Prepare, ValuesThatDoNotFitAreNamed) {
  const std::pair<ParamType, const char*> wrong[] = {
      {ParamType::kI8, "128"},  {ParamType::kI8, "-129"},        {ParamType::kI32, "2147483648"},
      {ParamType::kU32, "-1"},  {ParamType::kU32, "4294967296"}, {ParamType::kU64, "-1"},
      {ParamType::kI32, "1.5"}, {ParamType::kF16, "65536.0"},    {ParamType::kF32, "1e39"}};
  for (const auto& [type, text] : wrong) {
    Small small;
    small.binding() = {.name = "count", .type = type, .value = text};
    EXPECT_TRUE(has(small.error(), "parameter 'count'") && has(small.error(), "'run'"))
        << text << ": " << small.error();
  }
  const std::pair<ParamType, const char*> right[] = {
      {ParamType::kI8, "-128"},        {ParamType::kI32, "2147483647"},
      {ParamType::kU32, "4294967295"}, {ParamType::kU64, "9223372036854775807"},
      {ParamType::kF16, "65504.0"},    {ParamType::kF32, "3"}};
  for (const auto& [type, text] : right) {
    Small small;
    small.binding() = {.name = "count", .type = type, .value = text};
    EXPECT_EQ(small.error(), "") << text;
  }
}

TEST(Prepare, BindingToAMissingArgumentIsNamed) {
  Small small;
  small.binding() = {.name = "p", .type = ParamType::kPtr, .value = "nothing"};
  EXPECT_TRUE(has(small.error(), "'nothing' is not a tensor")) << small.error();
}

TEST(Prepare, GridsThatNoLaunchCanHold) {
  Small small;
  small.f.record.steps[0].grid[1] = "4294967296";
  EXPECT_TRUE(has(small.error(), "grid.y") && has(small.error(), "4294967296")) << small.error();
  small.f.record.steps[0].grid[1] = "-1";
  EXPECT_TRUE(has(small.error(), "must not be negative")) << small.error();
  small.f.record.steps[0].grid[1] = "N / (N - N)";
  EXPECT_TRUE(has(small.error(), "grid.y") && has(small.error(), "zero")) << small.error();
}

TEST(Prepare, HostItemsAreSixtyFourBits) {
  Small small;
  small.f.device = DeviceInfo{};
  small.f.record.steps[0].grid[0] = "N * 1000000";
  small.f.record.steps[0].block[0] = "64";
  const auto launch = small.prepare();
  ASSERT_TRUE(launch) << launch.error().message;
  EXPECT_EQ(launch->steps[0].items, 100000000000);
  EXPECT_EQ(launch->steps[0].grain, 64);
}

TEST(Prepare, UnequalTensorMapListsAreRefused) {
  LaunchFixture f = fixtures::tilelang_gemm();
  f.record.steps[0].bindings[0].tensor_map.box.pop_back();
  const auto call = bind_call(f.signature, f.tensors, f.attributes);
  const auto launch = prepare_launch(f.signature, *call, f.record, f.values, f.device);
  ASSERT_FALSE(launch);
  EXPECT_TRUE(has(launch.error().message, "box")) << launch.error().message;
}

}  // namespace
}  // namespace opforge
