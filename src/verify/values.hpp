// The values of a trial's tensors, as bytes of their dtype.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/inputs.hpp"

namespace opforge {

// What a generator needs to know of the tensor it fills.
struct FillRequest {
  DType dtype = DType::kF32;
  std::int64_t elements = 0;
  std::int64_t row_elements = 1;      // extent of the last dim: hostile patterns are laid along it
  std::int64_t reduced_elements = 1;  // how many are summed together at most
  Fill fill = Fill::kNormal;
  Data data = Data::kOrdinary;
  std::uint64_t seed = 0;
};

// `elements` values in row-major order, rounded to the dtype.
std::string make_values(const FillRequest& request);

}  // namespace opforge
