// From a cuTile kernel's declaration and what its compiler said to a launch record.
#pragma once

#include "toolchain/dsl_toolchain.hpp"

namespace opforge::cutile {

// The question for a GPU name of the assembler ("sm_90"). Pointer bindings to tensors are arrays,
// others are not allowed; integers and floats are scalars. Tensors that may be the same memory
// share an alias group. Options of a kernel: vectors(condition)=arrays. kInvalidDeclaration for a
// binding that cuTile has no type for, and an unknown option.
Result<nlohmann::json> question(const CompileRequest& request, const std::string& gpu);

// The record: of each array its pointer, extents and strides (32 bits); blocks of one thread, which
// is how tile kernels are launched; guards for what was promised to the compiler.
Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer);

}  // namespace opforge::cutile
