// Every launch record of the fixtures, down to the bytes that reach the driver.
#include "backends/cuda_harness.hpp"
#include "fixtures/launch_fixtures.hpp"
#include "runtime/plan.hpp"

namespace opforge::test {
namespace {

using fixtures::ExpectedStep;

void expect_map(const StandinMap& came, const fixtures::ExpectedMap& want,
                const std::string& name) {
  EXPECT_EQ(came.type, want.element) << name;
  EXPECT_EQ(came.rank, want.dims.size()) << name;
  EXPECT_EQ(came.base, want.address) << name;
  EXPECT_EQ(std::vector(came.dims, came.dims + want.dims.size()), want.dims) << name;
  EXPECT_EQ(std::vector(came.strides, came.strides + want.strides_bytes.size()), want.strides_bytes)
      << name;
  EXPECT_EQ(std::vector(came.box, came.box + want.box.size()), want.box) << name;
  EXPECT_EQ(std::vector(came.element_strides, came.element_strides + want.element_strides.size()),
            want.element_strides)
      << name;
  EXPECT_EQ(came.interleave, want.interleave) << name;
  EXPECT_EQ(came.swizzle, want.swizzle) << name;
  EXPECT_EQ(came.l2_promotion, want.l2_promotion) << name;
  EXPECT_EQ(came.oob_fill, want.oob_fill) << name;
}

void expect_launch(Standin& standin, const StandinLaunch& came, const ExpectedStep& want) {
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(came.grid[i], want.grid[i]);
    EXPECT_EQ(came.block[i], want.block[i]);
    EXPECT_EQ(came.cluster[i], want.cluster[i]);
  }
  EXPECT_EQ(came.shared_bytes, want.shared_bytes);
  EXPECT_EQ(came.cooperative != 0, want.cooperative);
  EXPECT_EQ(came.programmatic != 0, want.programmatic);
  ASSERT_EQ(static_cast<std::size_t>(came.param_count), want.params.size());
  for (std::size_t i = 0; i < want.params.size(); ++i) {
    const auto* bytes = came.params + came.param_offsets[i];
    ASSERT_EQ(came.param_sizes[i], want.params[i].bytes.size()) << want.params[i].name;
    if (want.params[i].is_map) {
      std::uint32_t number = 0;
      std::memcpy(&number, bytes, sizeof number);
      ASSERT_GE(number, 1u);
      expect_map(standin.maps().at(number - 1), want.params[i].map, want.params[i].name);
    } else {
      EXPECT_EQ(std::vector(bytes, bytes + came.param_sizes[i]), want.params[i].bytes)
          << want.params[i].name;
    }
  }
}

TEST_F(CudaTest, LaunchFixturesReachTheDriverByteForByte) {
  for (const fixtures::LaunchFixture& f : fixtures::all_launch_fixtures()) {
    SCOPED_TRACE(f.name);
    standin.reset();
    auto call = bind_call(f.signature, f.tensors, f.attributes);
    ASSERT_TRUE(call) << call.error().message;
    auto prepared = prepare_launch(f.signature, *call, f.record, f.values, f.device);
    ASSERT_TRUE(prepared) << prepared.error().message;
    EXPECT_EQ(prepared->workspace_bytes, f.workspace_bytes);
    ASSERT_EQ(prepared->steps.size(), f.steps.size());

    std::vector<FakeKernel> kernels;
    for (std::size_t i = 0; i < f.steps.size(); ++i) {
      if (f.steps[i].is_memset) continue;
      FakeKernel kernel{"entry" + std::to_string(i), {}};
      for (const auto& param : f.steps[i].params)
        kernel.param_sizes.push_back(static_cast<std::uint32_t>(param.bytes.size()));
      kernels.push_back(std::move(kernel));
    }
    auto code = load(fake_cubin(90, kernels));
    ASSERT_NE(code, nullptr);
    std::vector<void*> tensors;
    for (const TensorView& view : f.tensors) tensors.push_back(view.data);
    for (std::size_t i = 0; i < f.steps.size(); ++i) {
      PreparedStep& step = prepared->steps[i];
      const Status resolved = launcher().resolve(*code, "entry" + std::to_string(i), 0, step);
      ASSERT_TRUE(resolved) << resolved.error().message;
      const Status launched = launcher().launch(
          step, tensors.data(), reinterpret_cast<void*>(fixtures::kWorkspaceAddress), 0, nullptr);
      ASSERT_TRUE(launched) << launched.error().message;
    }
    const auto launches = standin.launches();
    const auto memsets = standin.memsets();
    ASSERT_EQ(launches.size() + memsets.size(), f.steps.size());
    std::size_t next_launch = 0, next_memset = 0;
    for (const ExpectedStep& step : f.steps) {
      if (!step.is_memset) {
        expect_launch(standin, launches.at(next_launch++), step);
        continue;
      }
      const StandinMemset& came = memsets.at(next_memset++);
      EXPECT_EQ(came.address, step.memset_address);
      EXPECT_EQ(came.bytes, step.memset_bytes);
      EXPECT_EQ(came.value, step.memset_value);
    }
  }
}

}  // namespace
}  // namespace opforge::test
