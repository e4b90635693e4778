// Inputs and expected outputs in a folder, for programs that know no operator (examples/host_only).
//
//   <folder>/<operator>/<case>/case.json and the .npy files that it names; the format is told in
//   examples/host_only/README.md. Inputs are drawn as the declaration's fills say, rounded to their
//   dtype, and the reference sees the rounded values.
#pragma once

#include <span>

#include "base/files.hpp"
#include "operator/operator.hpp"

namespace opforge {

// Every test case of the operators that is small enough (2^18 elements a tensor), for each dtype
// combination whose first tensor has one of `dtypes` (empty: all), and once more without the
// optional tensors where there are some. kInvalidArgument when an operator has no such case.
Status write_expected(std::span<const Operator* const> operators, std::span<const DType> dtypes,
                      const Path& folder);

}  // namespace opforge
