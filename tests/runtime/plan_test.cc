#include <gtest/gtest.h>

#include <thread>

#include "runtime/code_cache.hpp"
#include "runtime/fake.hpp"
#include "runtime/seal.hpp"

namespace opforge {
namespace {

using fake::kGpu0;
using fake::kGpu1;
using fake::World;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A plan of the world's only kernel for these tensors.
std::shared_ptr<const Plan> plan_for(World& world, std::span<const TensorView> tensors) {
  const auto bound = bind_call(world.section->signature, tensors, {});
  EXPECT_TRUE(bound) << bound.error().message;
  auto artifact = std::make_shared<Artifact>(world.section->artifacts.back());
  auto plan = build_plan(world.section->signature, *bound, artifact, "code", world.cpu,
                         world.cpu.api.infos[0], false);
  EXPECT_TRUE(plan) << plan.error().message;
  return *plan;
}

TEST(Plan, LaunchesWithThePointersOfEachCall) {
  World world;
  world.add({.kernel = "k"});
  const auto plan = plan_for(world, world.tensors(8, 64));
  std::vector<float> other(512);
  void* data[] = {other.data(), world.y.data()};
  ASSERT_TRUE(plan->execute(data, nullptr, nullptr));
  ASSERT_EQ(world.cpu.launches.size(), 1u);
  EXPECT_EQ(world.cpu.launches[0].tensors[0], other.data());
  EXPECT_EQ(world.cpu.launches[0].step.items, 8);
}

TEST(Plan, PointerFaultsAreNamedBeforeAnythingIsLaunched) {
  World world;
  world.add({.kernel = "k"});
  const auto plan = plan_for(world, world.tensors(8, 64));
  char* x = reinterpret_cast<char*>(world.x.data());
  char* y = reinterpret_cast<char*>(world.y.data());
  const auto error = [&](void* first, void* second) {
    void* data[] = {first, second};
    const auto done = plan->execute(data, nullptr, nullptr);
    return done ? std::string() : done.error().message;
  };
  EXPECT_TRUE(has(error(nullptr, y), "'x' is null"));
  EXPECT_TRUE(has(error(x, nullptr), "'y' is null"));
  EXPECT_TRUE(has(error(x + 2, y), "'x'") && has(error(x + 2, y), "not aligned to 4"));
  EXPECT_TRUE(has(error(x, x), "output 'y' overlaps 'x'"));
  EXPECT_TRUE(has(error(x, x + 8 * 64 * 4 - 4), "overlaps"));
  EXPECT_TRUE(world.cpu.launches.empty());
  EXPECT_EQ(error(x, x + 8 * 64 * 4), "");  // side by side
}

TEST(Plan, DeclaredAliasMayBeExactlyTheSame) {
  World world;
  world.section->signature.tensors[1].may_alias = {"x"};
  world.add({.kernel = "k"});
  const auto plan = plan_for(world, world.tensors(8, 64));
  void* same[] = {world.x.data(), world.x.data()};
  EXPECT_TRUE(plan->execute(same, nullptr, nullptr));
  void* shifted[] = {world.x.data(), world.x.data() + 1};
  EXPECT_FALSE(plan->execute(shifted, nullptr, nullptr));
}

// Two column blocks of one matrix: their ranges overlap, their elements do not.
TEST(Plan, InterleavedColumnBlocksDoNotOverlap) {
  World world;
  world.add({.kernel = "k"});
  auto tensors = world.tensors(4, 8);
  tensors[0].strides = tensors[1].strides = {16, 1};
  tensors[1].data = world.x.data() + 8;
  const auto plan = plan_for(world, tensors);
  void* data[] = {world.x.data(), world.x.data() + 8};
  EXPECT_TRUE(plan->execute(data, nullptr, nullptr));
  void* closer[] = {world.x.data(), world.x.data() + 4};
  EXPECT_FALSE(plan->execute(closer, nullptr, nullptr));
}

TEST(Plan, NegativeStridesReachBelowTheData) {
  World world;
  world.add({.kernel = "k"});
  auto tensors = world.tensors(4, 8);
  tensors[0].data = world.x.data() + 24;
  tensors[0].strides = {-8, 1};
  tensors[1].data = world.x.data() + 32;
  const auto plan = plan_for(world, tensors);
  void* apart[] = {world.x.data() + 24, world.x.data() + 32};
  EXPECT_TRUE(plan->execute(apart, nullptr, nullptr));
  void* below[] = {world.x.data() + 32, world.x.data() + 8};
  EXPECT_FALSE(plan->execute(below, nullptr, nullptr));
}

// Code that was chosen for 16-byte alignment refuses less, but not more than its guards ask for.
TEST(Plan, AlignmentIsWhatTheGuardsNeed) {
  World world;
  world.add({.kernel = "k", .guard = "x.align % 16 == 0 && x.align >= 16"});
  alignas(256) static float memory[4096];
  auto tensors = world.tensors(8, 64);
  tensors[0].data = memory;
  const auto plan = plan_for(world, tensors);
  void* sixteen[] = {memory + 4, world.y.data()};
  EXPECT_TRUE(plan->execute(sixteen, nullptr, nullptr));
  void* eight[] = {memory + 2, world.y.data()};
  const auto refused = plan->execute(eight, nullptr, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(has(refused.error().message, "aligned to 16"));
}

TEST(Plan, GuardsAreCheckedWhenAnArtifactIsRunDirectly) {
  World world;
  world.add({.kernel = "k", .guard = "N <= 32"});
  const auto bound = bind_call(world.section->signature, world.tensors(8, 64), {});
  auto artifact = std::make_shared<Artifact>(world.section->artifacts.back());
  const auto plan = build_plan(world.section->signature, *bound, artifact, "code", world.cpu,
                               world.cpu.api.infos[0], false);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
  EXPECT_TRUE(has(plan.error().message, "guard says no"));
}

TEST(Plan, ZeroSizeLaunchesNothing) {
  World world;
  world.add({.kernel = "k", .guard = "N > 0 && M > 0"});
  for (const auto& [m, n] : {std::pair(0, 64), std::pair(8, 0), std::pair(0, 0)}) {
    const std::int64_t dims[] = {m, n};
    const TensorView empty = TensorView::contiguous(nullptr, DType::kF32, dims);
    const auto plan = plan_for(world, std::vector<TensorView>{empty, empty});
    void* data[] = {nullptr, nullptr};
    EXPECT_TRUE(plan->execute(data, nullptr, nullptr));
    const auto called = world.open().call("test.op", std::vector<TensorView>{empty, empty}, {}, {});
    EXPECT_TRUE(called && !*called) << (called ? (*called)->reason : called.error().message);
  }
  EXPECT_TRUE(world.cpu.launches.empty());
}

TEST(Plan, StepsOfAnEmptyGridAreSkipped) {
  World world;
  Artifact& made = world.add({.kernel = "k"});
  made.launch.steps.push_back(made.launch.steps[0]);
  made.launch.steps[0].grid[0] = "N - 64";
  const auto plan = plan_for(world, world.tensors(8, 64));
  void* data[] = {world.x.data(), world.y.data()};
  ASSERT_TRUE(plan->execute(data, nullptr, nullptr));
  EXPECT_EQ(world.cpu.launches.size(), 1u);
  EXPECT_EQ(world.cpu.launches[0].step.items, 8);
}

TEST(Plan, WorkspaceIsTheCallers) {
  World world;
  Artifact& made = world.add({.kernel = "k"});
  made.launch.workspace_bytes = "M * 4";
  made.launch.workspace_align = 64;
  made.launch.steps[0].bindings[0].value = "workspace + 16";
  const auto plan = plan_for(world, world.tensors(8, 64));
  EXPECT_EQ(plan->workspace_bytes(), 32u);
  EXPECT_EQ(plan->workspace_align_mask(), 63u);
  void* data[] = {world.x.data(), world.y.data()};
  EXPECT_FALSE(plan->execute(data, nullptr, nullptr));
  alignas(64) char workspace[128];
  EXPECT_FALSE(plan->execute(data, workspace + 8, nullptr));
  ASSERT_TRUE(plan->execute(data, workspace, nullptr));
  EXPECT_EQ(world.cpu.launches[0].workspace, workspace);
}

TEST(Plan, MissingSymbolIsNamed) {
  World world;
  Artifact& made = world.add({.kernel = "k"});
  const auto bound = bind_call(world.section->signature, world.tensors(8, 64), {});
  const auto error = [&] {
    const auto plan = build_plan(world.section->signature, *bound, std::make_shared<Artifact>(made),
                                 "code", world.cpu, world.cpu.api.infos[0], false);
    return plan ? std::string() : plan.error().message;
  };
  made.symbols = {{"run", "missing"}};
  EXPECT_TRUE(has(error(), "no symbol 'missing'"));
  made.symbols.clear();
  EXPECT_TRUE(has(error(), "no symbol to entry 'run'"));
}

TEST(Plan, EachDeviceLoadsItsOwnCode) {
  World world;
  world.add({.kernel = "g", .backend = "gpu", .target = "sm_90a"});
  for (const Device device : {kGpu0, kGpu1}) {
    const auto prepared = world.prepare(8, 64, {}, device);
    ASSERT_TRUE(prepared);
    void* data[] = {world.x.data(), world.y.data()};
    ASSERT_TRUE(std::get<0>(*prepared)->execute(data, nullptr, nullptr));
    EXPECT_EQ(world.gpu.launches.back().ordinal, device.ordinal);
  }
  EXPECT_EQ(world.gpu.loads, 2);
}

TEST(CodeCache, LoadsOnceAndKeepsABoundedNumberOfUnused) {
  World world;
  const int before = fake::Code::alive;
  const auto artifact = [](int i) {
    return fake::artifact({.kernel = "cache" + std::to_string(i)});
  };
  const auto bytes = []() -> Result<std::string> { return std::string("code"); };
  std::vector<std::shared_ptr<LoadedCode>> held;
  for (int i = 0; i < 2000; ++i) {
    const auto code = load_code(world.cpu, artifact(i), 0, false, bytes);
    ASSERT_TRUE(code);
    if (i < 10) held.push_back(*code);
  }
  EXPECT_EQ(world.cpu.loads, 2000);
  EXPECT_LE(fake::Code::alive - before, static_cast<int>(kUnusedCodeKept) + 12);
  for (int i = 0; i < 10; ++i) {
    const auto again = load_code(world.cpu, artifact(i), 0, false, bytes);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, held[static_cast<std::size_t>(i)]);  // what is held is never unloaded
  }
  EXPECT_EQ(world.cpu.loads, 2000);
}

TEST(CodeCache, SixteenThreadsLoadOneCodeOnce) {
  World world;
  const Artifact artifact = fake::artifact({.kernel = "threads"});
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      const auto code = load_code(world.cpu, artifact, 0, false,
                                  []() -> Result<std::string> { return std::string("code"); });
      EXPECT_TRUE(code);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(world.cpu.loads, 1);
}

TEST(CodeCache, FailuresAreNotKept) {
  World world;
  const Artifact artifact = fake::artifact({.kernel = "failing"});
  const auto bytes = []() -> Result<std::string> { return std::string("code"); };
  world.cpu.load_error = Code::kOutOfMemory;
  EXPECT_FALSE(load_code(world.cpu, artifact, 0, false, bytes));
  world.cpu.load_error.reset();
  EXPECT_TRUE(load_code(world.cpu, artifact, 0, false, bytes));
}

}  // namespace
}  // namespace opforge
