// Element types, and conversion of single elements to and from double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace opforge {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI8, kU8, kI32, kI64, kU32, kU64, kBool, kF8E4M3, kF8E5M2 };
inline constexpr int kDTypeCount = 13;

std::size_t itemsize(DType dtype);                   // bytes
std::string_view dtype_name(DType dtype);            // "f32", "bf16", ...
Result<DType> parse_dtype(std::string_view name);    // kInvalidArgument listing the valid names
bool is_floating(DType dtype);

double load_as_double(const void* element, DType dtype);               // exact
void store_from_double(void* element, DType dtype, double value);      // round to nearest even; NaN stays NaN
// Distance between neighbouring values of `dtype` at |value| (subnormal spacing near zero); for floating dtypes.
double ulp_at(double value, DType dtype);
double epsilon(DType dtype);                          // 2^-23 for f32, 2^-10 for f16, 2^-7 for bf16, ...
double largest_finite(DType dtype);

}  // namespace opforge
