// Targets: what code is compiled for, and which target's code runs on which device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "contract/support.hpp"
#include "tensor/view.hpp"

namespace opforge {

// "x86-64-v3" (CPU); "sm_90a", "sm_80" (cubin); "compute_80" (PTX); "gfx942", "gfx90a" (hsaco); "opencl:pocl" (devices of
// the OpenCL platform that calls itself that). "reference" code is built for the CPU baseline "x86-64".
struct Target {
  std::string name;
  DeviceKind device = DeviceKind::kCpu;
  int arch = 0;            // 90 for sm_90a; 1..4 for x86-64 levels; 0x942 for gfx942 (steppings are hex digits)
  bool arch_specific = false;  // the "a" suffix
  bool ptx = false;
  friend bool operator==(const Target& a, const Target& b) { return a.name == b.name; }
};
Result<Target> parse_target(std::string_view name);  // kInvalidArgument listing the forms

// What a device is; found at run time, or written down in tests. Never fails: unknown fields are 0 or empty.
struct DeviceInfo {
  Device device;
  std::string model;        // "NVIDIA H200", "AMD EPYC 9B14"; OpenCL: platform first, "pocl: AMD EPYC"
  int arch = 0;             // 90 for compute capability 9.0; x86-64 level for a CPU
  int driver_version = 0;   // CUDA: 13000 for 13.0; 0 for a CPU
  std::int64_t sm_count = 0;         // CUDA: multiprocessors; CPU: cores that this process may use
  std::int64_t shared_bytes = 0;     // CUDA: largest dynamic shared memory of a block (opt-in)
  std::int64_t l2_bytes = 0;         // the last-level cache: of a CPU, the largest that one core sees
  std::int64_t memory_bytes = 0;
  std::int64_t warp_size = 32;
};

// The vendor's rule: a plain cubin runs on the same major and an equal or higher minor; an "a" suffix on that exact one;
// PTX on its arch or later if `allow_ptx`; gfx code on exactly its own; CPU code on its level or higher. The refusal names both sides.
Support runs_on(const Target& target, const DeviceInfo& device, bool allow_ptx);

// The targets whose code this device runs, the most specific first: sm_90a, sm_90; x86-64-v3, x86-64-v2, x86-64.
std::vector<Target> native_targets(const DeviceInfo& device);

DeviceInfo detect_cpu();  // OPFORGE_CPU_LEVEL (1..4) masks instruction sets, for tests

}  // namespace opforge
