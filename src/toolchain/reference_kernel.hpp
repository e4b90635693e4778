// The kernel that every operator has without declaring it: its double reference as a CPU artifact.
#pragma once

#include "operator/operator.hpp"

namespace opforge {

inline constexpr std::string_view kReferenceBackend = "reference";

// "<op>.reference": one work item, any dtypes, strides and optionals. Parameters, in order: for
// each tensor {ptr, present, dtype code, dims, strides}, then one for each attribute (text: index
// in `choices`), then one for each of dim_symbols(). The wrapper that the reference toolchain
// generates reads exactly these.
KernelDecl reference_kernel(const Operator& op);

// The reference kernel is added to an operator that names a reference source and does not declare
// it itself.
void add_reference_kernel(Operator& op);

}  // namespace opforge
