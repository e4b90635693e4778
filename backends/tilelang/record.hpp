// From what a TileLang kernel's host code says to a launch record.
#pragma once

#include "toolchain/dsl_toolchain.hpp"

namespace opforge::tilelang {

// "fast_math" (0 or 1: an nvcc flag), "tma" (0: plain pointers; 1: descriptors and producer warps,
// where TileLang sees fit).
std::span<const std::string_view> known_options();

struct TileKernels {
  LaunchRecord record;
  std::vector<std::string> entries;  // names of the kernels in the cubin, a step each
};
// The declared record's workspace and guards, and a step for each kernel that the host code
// launches. A scalar or symbolic dim of the prim_func is what the declared binding of its name
// says; tensors are the operator's by name. kInvalidDeclaration names what is missing; kToolchain
// for an answer of another form.
Result<TileKernels> launch_record(const CompileRequest& request, const nlohmann::json& answer);

}  // namespace opforge::tilelang
