// What the declarations of elementwise TileLang kernels share (elementwise.hpp has the other languages).
#pragma once

#include <string>
#include <vector>

#include "ops/elementwise/elementwise.hpp"

namespace opforge::elementwise {

// Contiguous tensors as one stream. ALIGNED 1: a multiple of eight elements at 16-byte boundaries, so that accesses are vectors.
inline KernelDecl tilelang_kernel(const std::string& op, const std::vector<std::string>& tensors) {
  KernelDecl kernel;
  kernel.id = op + ".tilelang";
  kernel.description = "a block of elements of contiguous tensors";
  kernel.backend = "tilelang";
  kernel.tier = Tier::kDeterministic;
  kernel.sources = {"tilelang.py"};
  kernel.tunables = {{.name = "ALIGNED", .values = {0, 1}, .initial = "1", .specialisation = true},
                     {.name = "BLOCK", .values = {512, 1024, 2048, 4096, 8192}, .initial = "M * N * T.itemsize >= 33554432 ? 4096 : 1024"},
                     {.name = "THREADS", .values = {64, 128, 256, 512}, .initial = "128"}};
  kernel.constraints = {"BLOCK >= 8 * THREADS", "BLOCK <= 64 * THREADS"};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  kernel.launch.guards = {
      {all_of(tensors, "", ".stride1 == 1") + " && " + all_of(tensors, "", ".stride0 == N"), "a tensor is not contiguous"},
      {"ALIGNED == 0 || (M * N % 8 == 0 && " + all_of(tensors, "", ".align >= 16") + ")",
       "vector access needs a multiple of eight elements at 16-byte boundaries"},
      {"M * N <= 2147483647 - BLOCK", "elements are counted in 32 bits"}};
  LaunchStep step;
  step.entry = op;
  for (const std::string& name : tensors) step.bindings.push_back({.name = name, .type = ParamType::kPtr, .value = name});
  step.bindings.push_back({.name = "elements", .type = ParamType::kI32, .value = "M * N"});
  step.grid[0] = "ceil_div(M * N, BLOCK)";
  step.block[0] = "THREADS";
  kernel.launch.steps = {step};
  return kernel;
}

// A CUDA kernel with the reason why it is there beside one in TileLang.
inline KernelDecl beside_tilelang(KernelDecl kernel) {
  kernel.reason = {ReasonKind::kMissingPrimitive, "vectors with a tail, and tensors of any strides, in one kernel", {}};
  return kernel;
}

}  // namespace opforge::elementwise
