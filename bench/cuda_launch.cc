// What the CUDA launcher adds to the driver's own launch call. The driver is the stand-in of the
// tests in its fast mode, whose launches return at once: what is timed is all ours.
//
//   bench_cuda_launch [--benchmark_...]
#include <benchmark/benchmark.h>

#include "backends/cuda/launcher.hpp"
#include "standin/fake_cubin.hpp"
#include "standin/standin.hpp"

namespace {

using namespace opforge;

// benchmark::DoNotOptimize of a variable that may change is miscompiled by g++ 12: values are only
// read here.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// A kernel of three pointers, two integers and a float, resolved on the stand-in.
struct Setup {
  cu::CudaDeviceApi devices;
  cu::CudaLauncher launcher{devices};
  std::shared_ptr<LoadedCode> code;
  PreparedStep step;

  Setup() {
    Artifact artifact;
    artifact.variant.target = "sm_90a";
    artifact.kind = CodeKind::kCubin;
    const auto cubin = test::fake_cubin(90, {{"row", {8, 8, 8, 8, 8, 4}}});
    code = *launcher.load(artifact, cubin, 0, false);
    step.grid[0] = 16384;
    step.block[0] = 256;
    step.param_offsets = {0, 8, 16, 24, 32, 40};
    step.param_sizes = {8, 8, 8, 8, 8, 4};
    step.arguments.resize(48);
    step.pointers = {{0, 0, 0}, {8, 1, 0}, {16, 2, 0}};
    if (const Status s = launcher.resolve(*code, "row", 0, step); !s) std::abort();
  }
};

Setup& shared() {
  static Setup& setup = *new Setup;
  return setup;
}

void BM_BareDriverCall(benchmark::State& state) {
  Setup& setup = shared();
  const auto* volatile hidden = *setup.devices.driver();
  const cu::Driver& driver = *hidden;
  std::uint64_t slots[6] = {};
  void* params[] = {slots, slots + 1, slots + 2, slots + 3, slots + 4, slots + 5};
  for (auto _ : state) {
    keep(driver.launch(setup.step.function, 16384, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr));
  }
}
BENCHMARK(BM_BareDriverCall);

// With the device's context current, as frameworks leave it, and (/0) without, as in a new thread.
void BM_CudaLaunch(benchmark::State& state) {
  Setup& setup = shared();
  const cu::Driver& driver = **setup.devices.driver();
  if (state.range(0) != 0) driver.context_push(*setup.devices.primary(0));
  void* tensors[3] = {&setup, &setup, &setup};
  for (auto _ : state) {
    keep(setup.launcher.launch(setup.step, tensors, nullptr, 0, nullptr).has_value());
  }
  cu::Context popped = nullptr;
  if (state.range(0) != 0) driver.context_pop(&popped);
}
BENCHMARK(BM_CudaLaunch)->Arg(1)->Arg(0);

}  // namespace

int main(int argc, char** argv) {
  ::setenv("OPFORGE_STANDIN_FAST", "1", 1);
  (void)test::Standin::get();  // names the stand-in as the driver
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
