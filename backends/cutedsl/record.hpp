// From a CuTe DSL kernel's declaration and the launch in its own IR to a launch record.
#pragma once

#include "toolchain/dsl_toolchain.hpp"

namespace opforge::cutedsl {

// Alignment in bytes that every pointer is compiled for. launch_record() guards it.
inline constexpr int kPointerAlign = 16;

// {"entry", "params": [[name, "ptr:bf16" | "i32" | "i64" | "f32" | ..., alignment]]}.
// kInvalidDeclaration for a kernel of more than one step, options (there are none), and a binding
// that CuTe DSL has no type for.
Result<nlohmann::json> question(const CompileRequest& request);

// The declared record with block and shared memory from the DSL's IR, and guards for the alignment
// of pointers. kToolchain when the answer has another form, or the declared block is another.
Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer);

}  // namespace opforge::cutedsl
