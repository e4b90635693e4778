// Runs reduction.softmax from a pack through the C++ headers, says which kernel served, and why the
// others did not.
//
//   softmax PACK [KEY]
#include <cmath>
#include <iostream>
#include <opforge/opforge.hpp>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " PACK [KEY]\n";
    return 2;
  }
  const auto complain = [](const char* what, const opforge::Error& error) {
    std::cerr << what << ": " << opforge_status_name(error.status) << ": " << error.message << "\n";
    return 1;
  };
  auto context = opforge::Context::create();
  if (!context) return complain("context", context.error());
  opforge::PackOptions trust;
  if (argc > 2) trust.trusted_keys = {argv[2]};
  if (auto opened = context->open(argv[1], trust); !opened) return complain("pack", opened.error());

  constexpr int kRows = 3, kWidth = 777;
  std::vector<float> x(kRows * kWidth), y(kRows * kWidth);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  opforge::Tensor tx(x.data(), opforge::float32(), {kRows, kWidth}),
      ty(y.data(), opforge::float32(), {kRows, kWidth});

  opforge::CallOptions options;
  options.contract = OPFORGE_FAST;
  if (auto done = context->call("reduction.softmax", {tx.dl(), ty.dl()}, {}, options); !done) {
    // "Cannot run here now" is not an error: a service would take another route.
    return complain(done.unavailable() ? "unavailable" : "call", done.error());
  }
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int i = 0; i < kWidth; ++i) sum += y[static_cast<std::size_t>(row * kWidth + i)];
    std::cout << "row " << row << " sums to " << sum << "\n";
    if (std::fabs(sum - 1) > 1e-5) return 1;
  }
  auto plan = context->prepare("reduction.softmax", {tx.dl(), ty.dl()}, {}, options);
  if (!plan) return complain("plan", plan.error());
  std::vector<char> workspace(plan->workspace_bytes());
  if (auto done = plan->execute({x.data(), y.data()}, workspace.data()); !done)
    return complain("execute", done.error());
  std::cout << "served by " << plan->info().variant << ": " << plan->info().why << "\n";

  auto why = context->explain_json("reduction.softmax", {tx.dl(), ty.dl()}, {}, options);
  if (!why) return complain("explain", why.error());
  std::cout << *why << "\n";
  return 0;
}
