// Natural logarithm for results of rows: scalar, without libm.
#pragma once

#include <stdint.h>

#include "opforge_types.hpp"

namespace opforge {
namespace cpu {

// log(x) within 1e-12 of max(1, |log x|). -inf for 0, NaN for negative numbers and NaN, x for
// infinity.
static inline double log_f64(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  if (exponent == 1024) return x;
  if (exponent == -1023) return log_f64(x * 0x1p64) - 64 * 0.69314718055994530942;
  bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  double m;
  __builtin_memcpy(&m, &bits, 8);
  if (m > 1.41421356237309504880) m *= 0.5, exponent++;
  // log m = 2 artanh f, f = (m - 1) / (m + 1), |f| < 0.172: the next term is f^17 / 17 < 1e-14.
  const double f = (m - 1) / (m + 1), g = f * f;
  double p = 1.0 / 15;
  for (const double term : {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0})
    p = p * g + term;
  return 2 * f * p + static_cast<double>(exponent) * 0.69314718055994530942;
}

}  // namespace cpu
}  // namespace opforge
