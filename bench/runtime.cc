// What the runtime adds to a launch: plans over the bare call, calls by signature over plans, many
// threads, a new signature. The launcher and the kernel do nothing, so that what is timed is all
// ours.
//
//   bench_runtime [--benchmark_...]
#include <benchmark/benchmark.h>

#include "runtime/backends.hpp"
#include "runtime/fake.hpp"

namespace {

using namespace opforge;

// benchmark::DoNotOptimize of a variable that may change is miscompiled by g++ 12: values are only
// read here.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

[[gnu::noinline]] void block(const void* arguments, std::int64_t begin, std::int64_t end) {
  keep(arguments);
  keep(begin);
  keep(end);
}

// As the driver's launch call would be reached: through a pointer, with the arguments made as every
// launcher makes them.
class NothingLauncher : public fake::FakeLauncher {
 public:
  using FakeLauncher::FakeLauncher;
  Status launch(const PreparedStep& step, void* const* tensors, void* workspace, int,
                StreamHandle) override {
    keep(&step);
    keep(tensors);
    keep(workspace);
    return {};
  }
};

Signature three_tensors() {
  Signature s = fake::signature();
  TensorArg w = s.tensors[0];
  w.name = "w";
  w.dims = {"N"};
  s.tensors.insert(s.tensors.begin() + 1, w);
  return s;
}

// One operator of three tensors (x, w, y) with a kernel that does nothing.
struct Setup {
  NothingLauncher& launcher = *new NothingLauncher("cpu", DeviceKind::kCpu, 1, fake::kCpuModel, 3);
  std::shared_ptr<fake::Source> source = std::make_shared<fake::Source>();
  Runtime runtime{std::vector<Launcher*>{&launcher}};
  std::vector<float> memory = std::vector<float>(1 << 16);

  explicit Setup(int variants = 1) {
    auto section = std::make_shared<OperatorSection>();
    section->signature = three_tensors();
    for (int i = 0; i < variants; ++i) {
      Artifact made = fake::artifact({.kernel = "k",
                                      .values = {{"ROWS", std::int64_t{1 + i}}},
                                      .guard = "x.stride1 == 1 && y.stride1 == 1 && N % 4 == 0"});
      made.defaults = {{"ROWS", "M / 4", {}, false, false}};
      for (int v = 0; v < variants; ++v) made.defaults[0].values.push_back(1 + v);
      section->attestations.push_back(fake::proof(made, fake::kCpuModel));
      section->artifacts.push_back(std::move(made));
    }
    source->sections["test.op"] = section;
    runtime.add_source(source);
  }
  std::array<TensorView, 3> tensors(std::int64_t m, std::int64_t n) {
    const std::int64_t dims[] = {m, n};
    return {TensorView::contiguous(memory.data(), DType::kF32, dims),
            TensorView::contiguous(memory.data() + (1 << 14), DType::kF32, std::span(dims).last(1)),
            TensorView::contiguous(memory.data() + (1 << 15), DType::kF32, dims)};
  }
  std::shared_ptr<const Plan> plan(std::int64_t m, std::int64_t n) {
    const auto views = tensors(m, n);
    return std::get<0>(*runtime.prepare("test.op", views, {{"eps", 1e-6}}, {}));
  }
};

Setup& shared() {
  static Setup& setup = *new Setup;
  return setup;
}

void BM_BareBlockCall(benchmark::State& state) {
  void (*volatile function)(const void*, std::int64_t, std::int64_t) = block;
  void* slots[4] = {};
  for (auto _ : state) function(slots, 0, 8);
}
BENCHMARK(BM_BareBlockCall);

void BM_LauncherCall(benchmark::State& state) {
  Launcher* volatile hidden = &shared().launcher;
  Launcher* launcher = hidden;
  PreparedStep step;
  void* data[3] = {};
  for (auto _ : state) keep(launcher->launch(step, data, nullptr, 0, nullptr).has_value());
}
BENCHMARK(BM_LauncherCall);

// Beyond the launcher's own call.
void BM_PlanExecute(benchmark::State& state) {
  Setup& setup = shared();
  const auto plan = setup.plan(8, 64);
  const auto views = setup.tensors(8, 64);
  void* data[] = {views[0].data, views[1].data, views[2].data};
  for (auto _ : state) keep(plan->execute(data, nullptr, nullptr).has_value());
}
BENCHMARK(BM_PlanExecute)->ThreadRange(1, 16)->UseRealTime();

// The host launcher included: beyond BM_BareBlockCall.
void BM_PlanExecuteHostBlock(benchmark::State& state) {
  Launcher* host = find_launcher(DeviceKind::kCpu, CodeKind::kElfShared);
  PreparedStep step;
  step.function = reinterpret_cast<void*>(block);
  step.items = 8;
  step.grain = 64;
  step.arguments.resize(32);
  step.pointers = {{0, 0, 0}, {8, 1, 0}, {16, 2, 0}};
  void* data[3] = {};
  for (auto _ : state) keep(host->launch(step, data, nullptr, 0, nullptr).has_value());
}
BENCHMARK(BM_PlanExecuteHostBlock);

// The same call again and again: beyond BM_PlanExecute.
void BM_CallBySignature(benchmark::State& state) {
  Setup& setup = shared();
  const auto views = setup.tensors(8, 64);
  const ValueMap attributes = {{"eps", 1e-6}};
  const CallOptions options;
  for (auto _ : state) keep(setup.runtime.call("test.op", views, attributes, options).has_value());
}
BENCHMARK(BM_CallBySignature)->ThreadRange(1, 16)->UseRealTime();

// Each thread its own sixteen shapes in turn.
void BM_CallDifferentSignatures(benchmark::State& state) {
  Setup& setup = shared();
  std::vector<std::array<TensorView, 3>> shapes;
  for (int i = 0; i < 16; ++i)
    shapes.push_back(setup.tensors(1 + state.thread_index(), 4 * (1 + i)));
  const ValueMap attributes = {{"eps", 1e-6}};
  const CallOptions options;
  std::size_t i = 0;
  for (auto _ : state) {
    keep(setup.runtime.call("test.op", shapes[i++ % 16], attributes, options).has_value());
  }
}
BENCHMARK(BM_CallDifferentSignatures)->ThreadRange(1, 16)->UseRealTime();

// The first call of a new signature, code loaded already, from an operator of that many variants.
void BM_PrepareNewSignature(benchmark::State& state) {
  Setup setup(static_cast<int>(state.range(0)));
  std::int64_t n = 0;
  for (auto _ : state) {
    n = n % 4000 + 4;
    state.PauseTiming();
    if (n == 4) (void)setup.runtime.set_backend("");  // forget every plan
    const auto views = setup.tensors(3, n);
    state.ResumeTiming();
    keep(setup.runtime.prepare("test.op", views, {}, {}).has_value());
  }
}
BENCHMARK(BM_PrepareNewSignature)->Arg(1)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
