// Process start to first result from a sealed pack of 1,000 variants: bench_cold [RUNS]. Prints
// medians in ms, the plain start and end of a process with the same libraries beside it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "artifact/pack.hpp"

using namespace opforge;

namespace {

constexpr int kOperators = 10, kVariants = 100;

PackContents thousand_variants() {
  std::ifstream file(OPFORGE_BLOCK, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  PackContents contents;
  for (int op = 0; op < kOperators; ++op) {
    OperatorSection section;
    section.signature.name = "bench.scale" + std::to_string(op);
    TensorArg x, y;
    x.name = "x";
    x.dims = {"...M", "N"};
    x.dtype = "T";
    y = x;
    y.name = "y";
    y.access = Access::kWrite;
    section.signature.tensors = {x, y};
    section.signature.dtypes = {{{"T", DType::kF32}}};
    section.signature.default_contract = Tier::kFast;
    section.signature.backend_priority = {"cpu"};
    for (int v = 0; v < kVariants; ++v) {
      Artifact a;
      a.variant = {
          section.signature.name,          "k", "cpu", Tier::kFast, "x86-64", {{"T", DType::kF32}},
          {{"ROWS", std::int64_t{v + 1}}}, {}};
      LaunchStep step;
      step.entry = "block";
      step.grid[0] = "M";
      step.bindings = {{.name = "x", .value = "x"},
                       {.name = "y", .value = "y"},
                       {.name = "n", .type = ParamType::kI64, .value = "N"},
                       {.name = "alpha", .type = ParamType::kF32, .value = "2.0"}};
      a.launch.steps = {step};
      a.launch.guards = {{"x.stride1 == 1 && y.stride1 == 1", "rows must be contiguous"}};
      a.symbols = {{"block", "block_scale"}};
      // Code of its own for each variant: what follows the last section of an object is not looked
      // at.
      std::string code = bytes.str() + std::to_string(op) + "." + std::to_string(v);
      a.code_digest = sha256(code);
      a.code_key = sha256("key " + code);
      a.toolchain.name = "bench";
      a.defaults = {{"ROWS", "M", {}, false, false}};
      for (int n = 1; n <= kVariants; ++n) a.defaults[0].values.push_back(n);
      contents.codes.push_back({a.code_digest, std::move(code)});
      section.artifacts.push_back(std::move(a));
    }
    contents.sections.push_back(std::move(section));
  }
  return contents;
}

double run_ms(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* environment[] = {nullptr};
  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environment) == 0)
    waitpid(child, &status, 0);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (status != 0) {
    std::fprintf(stderr, "%s ended with wait status %d\n", argv[0], status);
    std::exit(1);
  }
  return taken.count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 31;
  auto folder = TempDir::create("/tmp", "opforge-bench");
  if (!folder) return 1;
  const Path pack = folder->path() / "thousand.ofpack";
  const SigningKey key = SigningKey::generate();
  if (const auto written = write_pack(pack, thousand_variants(), &key); !written) {
    std::fprintf(stderr, "%s\n", written.error().message.c_str());
    return 1;
  }
  std::vector<double> first, plain;
  for (int i = 0; i < runs; ++i) {  // interleaved, so that both see the same machine
    plain.push_back(run_ms({OPFORGE_FIRST}));
    first.push_back(run_ms({OPFORGE_FIRST, pack.string(), key.public_hex(), "bench.scale7"}));
  }
  std::printf(
      "start to first result of %d variants, sealed: %.2f ms; a process that only starts and ends: "
      "%.2f ms (medians of %d)\n",
      kOperators * kVariants, median(first), median(plain), runs);
  return 0;
}
