// What the declarations of elementwise Triton kernels share (elementwise.hpp has the other languages).
#pragma once

#include <string>
#include <vector>

#include "ops/elementwise/elementwise.hpp"

namespace opforge::elementwise {

// LAYOUT 2: contiguous, and addresses and the number of elements multiples of 16, so that accesses are vectors; 1: contiguous;
// 0: any strides.
inline KernelDecl triton_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel;
  kernel.id = op + ".triton";
  kernel.description = "a block of elements a program";
  kernel.backend = "triton";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"triton.py"};
  kernel.tunables = {
      {.name = "LAYOUT", .values = {0, 1, 2}, .initial = "2", .specialisation = true},
      {.name = "BLOCK", .values = {512, 1024, 2048, 4096, 8192}, .initial = "LAYOUT == 0 ? 512 : M * N * T.itemsize >= 33554432 ? 4096 : 1024"},
      {.name = "NUM_WARPS", .values = {2, 4, 8, 16}, .initial = "4"}};
  kernel.constraints = {"LAYOUT > 0 || (BLOCK == 512 && NUM_WARPS == 4)"};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}, {DeviceKind::kHip, 0, 0}};
  std::string divisible = "elements";
  for (const std::string& name : tensors) divisible += "," + name;
  kernel.options = {"num_warps=NUM_WARPS", "enable_fp_fusion=1", "divisible_by_16(LAYOUT == 2)=" + divisible};
  kernel.launch.guards = {
      {"LAYOUT < 1 || (" + all_of(tensors, "", ".stride1 == 1") + " && " + all_of(tensors, "", ".stride0 == N") + ")",
       "a tensor is not contiguous"},
      {"ceil_div(M * N, BLOCK) <= 2147483647", "more blocks than a grid has"}};
  LaunchStep step;
  step.entry = op;
  step.bindings = bindings(tensors, extra);
  for (Binding& binding : step.bindings) {
    if (binding.name == "rows") binding = {.name = "elements", .type = ParamType::kI64, .value = "M * N"};
  }
  step.grid[0] = "ceil_div(M * N, BLOCK)";
  kernel.launch.steps = {step};
  return kernel;
}

// A CUDA kernel with the reason why it is there beside one in Triton.
inline KernelDecl beside_triton(KernelDecl kernel) {
  kernel.reason = {ReasonKind::kMissingPrimitive,
                   "vectors with a tail: under a mask Triton's accesses are vectors only where the number of elements is known to be "
                   "a multiple of 16",
                   {}};
  return kernel;
}

// For rows of different lengths: a block of a row a program. LAYOUT as above, of rows.
inline KernelDecl triton_rows_kernel(const std::string& op, const std::vector<std::string>& tensors, const std::vector<Binding>& extra) {
  KernelDecl kernel = triton_kernel(op, tensors, extra);
  kernel.description = "a block of a row a program";
  std::string divisible = "columns", ones;
  for (const std::string& name : tensors) {
    divisible += "," + name + "," + name + "_row";
    ones += (ones.empty() ? "" : ",") + name + "_column";
  }
  kernel.options = {"num_warps=NUM_WARPS", "enable_fp_fusion=1", "divisible_by_16(LAYOUT == 2)=" + divisible,
                    "equal_to_1(LAYOUT >= 1)=" + ones};
  kernel.launch.guards = {{"M <= 2147483647 && ceil_div(N, BLOCK) <= 65535", "more rows or columns than a grid has blocks"}};
  LaunchStep& step = kernel.launch.steps.front();
  std::erase_if(step.bindings, [](const Binding& binding) { return binding.name == "elements"; });
  for (Binding& binding : step.bindings) {
    if (binding.name == "columns") binding.type = ParamType::kI32;
  }
  step.grid = {"M", "ceil_div(N, BLOCK)", ""};
  return kernel;
}

}  // namespace opforge::elementwise
