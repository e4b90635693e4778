#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/log.hpp"
#include "runtime/code_cache.hpp"
#include "runtime/environment.hpp"
#include "runtime/fake.hpp"
#include "runtime/metrics.hpp"
#include "runtime/seal.hpp"
#include "runtime/trace.hpp"

namespace {
// Allocations of this thread, counted by the operators below.
thread_local std::size_t allocations = 0;
}  // namespace

// Not inlined: the compiler would warn of a new that is matched by free().
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace opforge {
namespace {

using fake::kGpu0;
using fake::World;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

StreamHandle stream(int number) {
  return reinterpret_cast<StreamHandle>(static_cast<std::uintptr_t>(number));
}

TEST(Call, AHitAllocatesNothing) {
  World world;
  world.add({.kernel = "k"});
  world.cpu.run = [](const PreparedStep&, void* const*, void*) -> Status { return {}; };
  Runtime& runtime = world.open();
  const auto tensors = world.tensors(8, 64);
  const ValueMap attributes = {{"eps", 1e-6}};
  const CallOptions options;
  ASSERT_TRUE(runtime.call("test.op", tensors, attributes, options));
  const std::size_t before = allocations;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(runtime.call("test.op", tensors, attributes, options));
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(world.cpu.loads, 1);
}

TEST(Call, WorkspaceIsTakenOncePerThreadOnTheHost) {
  World world;
  Artifact& made = world.add({.kernel = "k"});
  made.launch.workspace_bytes = "1000";
  std::vector<void*> seen;
  world.cpu.run = [&](const PreparedStep&, void* const*, void* workspace) -> Status {
    seen.push_back(workspace);
    return {};
  };
  Runtime& runtime = world.open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(runtime.call("test.op", world.tensors(8, 64), {}, {}));
  EXPECT_EQ(seen, std::vector<void*>(3, seen[0]));
  EXPECT_NE(seen[0], nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen[0]) % 256, 0u);
}

TEST(Call, WorkspaceOfAStreamIsUsedAgainAndNeverSharedBetweenStreams) {
  World world;
  Artifact& made = world.add({.kernel = "g", .backend = "gpu", .target = "sm_90a"});
  made.launch.workspace_bytes = "4096";
  Runtime& runtime = world.open();
  CallOptions options;
  for (const int number : {1, 2, 1, 2}) {
    options.stream = stream(number);
    ASSERT_TRUE(runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, options));
  }
  ASSERT_EQ(world.gpu.launches.size(), 4u);
  EXPECT_EQ(world.gpu.launches[0].workspace, world.gpu.launches[2].workspace);
  EXPECT_EQ(world.gpu.launches[1].workspace, world.gpu.launches[3].workspace);
  EXPECT_NE(world.gpu.launches[0].workspace, world.gpu.launches[1].workspace);
  EXPECT_EQ(world.gpu.api.allocations, 2);
  world.runtime.reset();
  EXPECT_EQ(world.gpu.api.releases, 2);
}

TEST(Call, UnderCaptureNothingIsLoadedOrAllocated) {
  World world;
  Artifact& plain = world.add({.kernel = "g", .backend = "gpu", .target = "sm_90a"});
  Runtime& runtime = world.open();
  CallOptions options;
  options.stream = stream(1);
  world.gpu.api.capturing = {stream(1)};
  const auto cold = runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, options);
  ASSERT_TRUE(cold && *cold);
  EXPECT_TRUE(has((*cold)->reason, "not loaded yet")) << (*cold)->reason;
  EXPECT_EQ(world.gpu.loads, 0);
  world.gpu.api.capturing.clear();
  ASSERT_TRUE(runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, options));
  world.gpu.api.capturing = {stream(1)};
  const std::size_t pinned = code_cache_counts().pinned;
  const auto warm = runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, options);
  ASSERT_TRUE(warm && !*warm);
  EXPECT_EQ(world.gpu.launches.size(), 2u);
  EXPECT_EQ(code_cache_counts().pinned, pinned + 1);  // the graph may launch it for ever

  plain.launch.workspace_bytes = "64";
  world.open();
  world.gpu.api.capturing.clear();
  ASSERT_TRUE(world.runtime->call("test.op", world.tensors(8, 64, kGpu0), {}, options));
  world.gpu.api.capturing = {stream(1)};
  const auto scratch = world.runtime->call("test.op", world.tensors(8, 64, kGpu0), {}, options);
  ASSERT_TRUE(scratch && *scratch);
  EXPECT_TRUE(has((*scratch)->reason, "64 bytes of workspace")) << (*scratch)->reason;
}

TEST(Call, APreconditionAgainstCaptureIsSeenOnEveryCall) {
  World world;
  Artifact& made = world.add({.kernel = "g", .backend = "gpu", .target = "sm_90a"});
  made.preconditions = {{PreconditionKind::kNotCapturing, 0, {}}};
  Runtime& runtime = world.open();
  CallOptions options;
  options.stream = stream(1);
  const auto run = [&] {
    return *runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, options);
  };
  EXPECT_FALSE(run());
  world.gpu.api.capturing = {stream(1)};
  const auto refused = run();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->op, "test.op");
  EXPECT_TRUE(has(refused->reason, "captured"));
  world.gpu.api.capturing.clear();
  EXPECT_FALSE(run());
}

TEST(Call, TheUsersPreconditionIsAskedOnEveryCall) {
  World world;
  world.add({.kernel = "k"});
  Runtime& runtime = world.open();
  bool ready = true;
  CallOptions options;
  options.facts.user = [&](std::span<const TensorView>) {
    return ready ? Support::yes() : Support::no("not now");
  };
  EXPECT_FALSE(*runtime.call("test.op", world.tensors(8, 64), {}, options));
  ready = false;
  EXPECT_TRUE(*runtime.call("test.op", world.tensors(8, 64), {}, options));
}

TEST(Call, EveryPartOfACallIsPartOfItsKey) {
  World world;
  world.add({.kernel = "k"});
  world.add({.kernel = "k", .dtype = DType::kBF16});
  world.add({.kernel = "k", .flag = 1});
  world.add({.kernel = "hp", .tier = Tier::kHighPrecision});
  Runtime& runtime = world.open();
  const auto plan = [&](std::span<const TensorView> tensors, const ValueMap& attributes,
                        const CallOptions& options) {
    const auto prepared = runtime.prepare("test.op", tensors, attributes, options);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return std::get<0>(*prepared);
  };
  const auto base = plan(world.tensors(8, 64), {}, {});
  EXPECT_EQ(plan(world.tensors(8, 64), {}, {}), base);
  CallOptions strict;
  strict.contract = Tier::kHighPrecision;
  auto strided = world.tensors(8, 64);
  strided[0].strides[0] = 65;
  auto shifted = world.tensors(8, 64);
  shifted[0].data = world.x.data() + 1;
  std::set<const Plan*> plans{base.get()};
  std::vector<std::shared_ptr<const Plan>> alive;
  for (auto& other : {plan(world.tensors(4, 64), {}, {}), plan(world.tensors(8, 32), {}, {}),
                      plan(strided, {}, {}), plan(shifted, {}, {}),
                      plan(world.tensors(8, 64, {}, DType::kBF16), {}, {}),
                      plan(world.tensors(8, 64), {{"eps", 1e-5}}, {}),
                      plan(world.tensors(8, 64), {{"flag", std::int64_t{1}}}, {}),
                      plan(world.tensors(8, 64), {}, strict)}) {
    EXPECT_TRUE(plans.insert(other.get()).second);
    alive.push_back(other);
  }
}

TEST(Call, APackOpenedLaterIsSeen) {
  World world;
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  Runtime& runtime = world.open();
  EXPECT_EQ(world.serves(8, 64), "ref");
  auto second = std::make_shared<fake::Source>("second.ofpack");
  auto section = std::make_shared<OperatorSection>(*world.section);
  section->artifacts = {fake::artifact({.kernel = "better"})};
  second->sections["test.op"] = section;
  runtime.add_source(second);
  EXPECT_EQ(world.serves(8, 64), "better");
}

TEST(Call, PlansAreBoundedInNumber) {
  World world;
  world.add({.kernel = "k"});
  world.cpu.run = [](const PreparedStep&, void* const*, void*) -> Status { return {}; };
  Runtime& runtime = world.open();
  std::weak_ptr<const Plan> first;
  {
    auto prepared = runtime.prepare("test.op", world.tensors(1, 1), {}, {});
    first = std::get<0>(*prepared);
  }
  for (std::int64_t n = 2; n < 4096; ++n) {
    for (std::int64_t m = 1; m <= 3; ++m) {
      if (m * n <= 4096) {
        ASSERT_TRUE(runtime.prepare("test.op", world.tensors(m, n), {}, {}));
      }
    }
  }
  EXPECT_TRUE(first.expired());
}

TEST(Call, SixteenThreadsOnOneAndOnDifferentShapes) {
  World world;
  world.add({.kernel = "k"});
  std::atomic<int> launches{0};
  world.cpu.run = [&](const PreparedStep&, void* const*, void*) -> Status {
    launches.fetch_add(1, std::memory_order_relaxed);
    return {};
  };
  Runtime& runtime = world.open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto own = runtime.call("test.op", world.tensors(1 + t, 64), {}, {});
        const auto shared = runtime.call("test.op", world.tensors(32, 64), {}, {});
        ASSERT_TRUE(own && shared);
        if (i % 50 == 25)
          runtime.set_backend(t % 2 == 0 ? "cpu" : "");  // plans are thrown away meanwhile
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(launches.load(), 16 * 200 * 2);
  EXPECT_EQ(world.cpu.loads, 1);
}

TEST(Call, TraceHasEveryCallFailedOnesToo) {
  World world;
  world.add({.kernel = "k"});
  Artifact& picky = world.add({.kernel = "g", .backend = "gpu", .target = "sm_90a"});
  picky.preconditions = {{PreconditionKind::kMinLeadingDim, 100, {}}};
  Runtime& runtime = world.open();
  trace_start();
  CallOptions named;
  named.backend = "cpu";
  (void)runtime.call("test.op", world.tensors(8, 64), {{"eps", 1e-5}}, {});
  (void)runtime.call("test.op", world.tensors(8, 64), {}, named);
  (void)runtime.call("test.op", world.tensors(8, 64, kGpu0), {}, {});
  auto wrong = world.tensors(8, 64);
  wrong[1].dims[1] = 63;
  (void)runtime.call("test.op", wrong, {}, {});
  (void)runtime.call("test.nothing", world.tensors(8, 64), {}, {});
  trace_stop();
  const auto records = trace_take();
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].outcome, "ok");
  EXPECT_EQ(records[0].kernel, "k");
  EXPECT_EQ(records[0].backend, "cpu");
  EXPECT_EQ(records[0].grade, "default");
  EXPECT_EQ(records[0].contract, "FAST");
  EXPECT_EQ(records[0].device, "cpu:0");
  ASSERT_EQ(records[0].tensors.size(), 2u);
  EXPECT_EQ(records[0].tensors[0].name, "x");
  EXPECT_EQ(records[0].tensors[0].dims, (std::vector<std::int64_t>{8, 64}));
  EXPECT_EQ(records[0].tensors[0].strides, (std::vector<std::int64_t>{64, 1}));
  EXPECT_EQ(records[0].attributes.at("eps"), Value{1e-5});
  EXPECT_EQ(records[1].grade, "forced");
  EXPECT_EQ(records[2].outcome, "unavailable");
  EXPECT_TRUE(has(records[2].message, "rows"));
  EXPECT_EQ(records[3].outcome, "invalid_argument");
  EXPECT_TRUE(has(records[3].message, "N is 64 in x but 63 in y"));
  EXPECT_EQ(records[4].outcome, "not_found");
}

TEST(Call, DeviceTensorsReachTheReferenceInDevelopmentByCopying) {
  // Development mode cannot be left: a process of its own.
  EXPECT_EXIT(
      {
        World world;
        world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
        world.cpu.run = [](const PreparedStep& step, void* const* tensors, void*) -> Status {
          const auto* x = static_cast<const float*>(tensors[0]);
          auto* y = static_cast<float*>(tensors[1]);
          for (std::int64_t i = 0; i < step.items * 4; ++i) y[i] = x[i] + 1;
          return {};
        };
        develop();
        Runtime& runtime = world.open();
        for (int i = 0; i < 8; ++i) world.x[static_cast<std::size_t>(i)] = static_cast<float>(i);
        const auto done = runtime.call("test.op", world.tensors(2, 4, kGpu0), {}, {});
        bool good =
            done && !*done && world.gpu.api.copies == 3 && world.gpu.api.synchronizations == 1;
        for (int i = 0; i < 8; ++i)
          good = good && world.y[static_cast<std::size_t>(i)] == static_cast<float>(i) + 1;
        std::exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Call, SealedMissIsRecorded) {
  EXPECT_EXIT(
      {
        World world;
        world.add({.kernel = "k", .dtype = DType::kBF16});
        seal();
        const std::string got = world.serves(8, 64);
        const auto misses = sealed_misses();
        const bool good = has(got, "[compilation_sealed]") && has(got, "sealed") &&
                          misses.size() == 1 && has(misses[0], "test.op") &&
                          has(misses[0], "f32[8,64]");
        std::exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Environment, BackendVariableForcesAndAWrongNameIsReported) {
  ASSERT_EQ(setenv("OPFORGE_BACKEND", "reference", 1), 0);
  World world;
  world.add({.kernel = "k"});
  world.add({.kernel = "ref", .backend = "reference", .tier = Tier::kHighPrecision});
  EXPECT_EQ(world.serves(8, 64), "ref");
  ASSERT_EQ(setenv("OPFORGE_BACKEND", "refrence", 1), 0);
  World wrong;
  wrong.add({.kernel = "k"});
  const std::string got = wrong.serves(8, 64);
  EXPECT_TRUE(has(got, "[not_found]") && has(got, "OPFORGE_BACKEND") &&
              has(got, "did you mean reference?"))
      << got;
  ASSERT_EQ(unsetenv("OPFORGE_BACKEND"), 0);
}

TEST(Environment, UnknownVariablesAreWarnedOfOnce) {
  EXPECT_EXIT(
      {
        setenv("OPFORGE_BACKENDS", "cpu", 1);
        int warnings = 0;
        bool named = false;
        set_log_sink([&](LogLevel level, std::string_view, std::string_view message) {
          warnings += level == LogLevel::kWarning;
          named = has(std::string(message), "OPFORGE_BACKENDS (did you mean OPFORGE_BACKEND?)") &&
                  has(std::string(message), "OPFORGE_THREADS");
        });
        // The first runtime of the process may have been made by an earlier test: ask directly.
        const auto unknown = unknown_variables();
        warn_of_unknown_variables();
        warn_of_unknown_variables();
        std::exit(unknown == std::vector<std::string>{"OPFORGE_BACKENDS"} &&
                          (warnings == 0 || (warnings == 1 && named))
                      ? 0
                      : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Environment, ForcedBackendWarnsOncePerOperator) {
  World world;
  world.add({.kernel = "k"});
  Runtime& runtime = world.open();
  ASSERT_TRUE(runtime.set_backend("gpu"));
  int warnings = 0;
  set_log_sink([&](LogLevel level, std::string_view, std::string_view message) {
    warnings += level == LogLevel::kWarning &&
                has(std::string(message), "backend gpu is forced, but cannot serve test.op");
  });
  world.serves(8, 64);
  world.serves(4, 64);
  world.serves(2, 64);
  set_log_sink({});
  EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace opforge
