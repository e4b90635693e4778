// From a Triton kernel's declaration and what its compiler said to a launch record.
#pragma once

#include "toolchain/dsl_toolchain.hpp"

namespace opforge::triton {

// The question: parameters with Triton's types, specialisations, options. kInvalidDeclaration for a
// kernel that launches more than one entry, a binding that Triton has no type for, and an unknown
// option.
Result<nlohmann::json> question(const CompileRequest& request);

// The record of the compiled kernel: declared bindings in the compiled order without those that
// became constants, descriptors with what follows them, the scratch pointers; block, shared memory,
// cluster and launch attributes from the metadata; guards for every promise that was made to the
// compiler. kToolchain for an answer that does not fit the declaration.
Result<LaunchRecord> launch_record(const CompileRequest& request, const nlohmann::json& answer);

// Options that a kernel may give, beside the lists divisible_by_16(condition)=parameters and
// equal_to_1(condition)=parameters.
std::span<const std::string_view> known_options();

}  // namespace opforge::triton
