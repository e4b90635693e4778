// What the calls of overhead.py cost from C++: baseline PACK KEY. Prints JSON: nanoseconds a call.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <opforge/opforge.hpp>
#include <vector>

namespace {

template <class Call>
double best_ns(Call&& call) {
  constexpr int kRounds = 300, kCalls = 2000;
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kCalls);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  opforge_set_threads(1);
  auto context = opforge::Context::create();
  opforge::PackOptions options;
  options.trusted_keys = {argv[2]};
  if (!context || !context->open(argv[1], options)) return 1;
  std::vector<float> x(64, 1.5f), w(64, 2.0f), y(64);
  opforge::Tensor tx(x.data(), opforge::float32(), {1, 64}), tw(w.data(), opforge::float32(), {64}),
      ty(y.data(), opforge::float32(), {1, 64});
  const std::vector<const DLTensor*> tensors = {tx.dl(), tw.dl(), ty.dl()};
  auto plan = context->prepare("norm.rms_norm", tensors);
  if (!plan) return 1;
  void* data[] = {x.data(), w.data(), y.data()};
  bool good = true;
  const double execute = best_ns([&] { good = good && plan->execute(data); });
  const double call = best_ns([&] { good = good && context->call("norm.rms_norm", tensors); });
  std::printf("{\"prepared\": %.1f, \"call\": %.1f}\n", execute, call);
  return good ? 0 : 1;
}
