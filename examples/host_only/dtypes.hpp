// Elements of the dtypes that cases use, as doubles.
#pragma once

#include <dlpack/dlpack.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

struct DTypeInfo {
  DLDataType dl;
  int bytes;
  int mantissa_bits;  // 0: an integer
  int least_exponent;
};

inline DTypeInfo dtype_info(const std::string& name) {
  if (name == "f64") return {{kDLFloat, 64, 1}, 8, 52, -1022};
  if (name == "f32") return {{kDLFloat, 32, 1}, 4, 23, -126};
  if (name == "f16") return {{kDLFloat, 16, 1}, 2, 10, -14};
  if (name == "bf16") return {{kDLBfloat, 16, 1}, 2, 7, -126};
  if (name == "i32") return {{kDLInt, 32, 1}, 4, 0, 0};
  if (name == "i64") return {{kDLInt, 64, 1}, 8, 0, 0};
  if (name == "i8") return {{kDLInt, 8, 1}, 1, 0, 0};
  if (name == "u8") return {{kDLUInt, 8, 1}, 1, 0, 0};
  throw std::runtime_error("this example does not know dtype " + name);
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

inline double element(const char* at, const std::string& dtype) {
  if (dtype == "f64") return load<double>(at);
  if (dtype == "f32") return load<float>(at);
  if (dtype == "f16") return half_to_double(load<std::uint16_t>(at));
  if (dtype == "bf16") {
    const std::uint32_t bits = std::uint32_t{load<std::uint16_t>(at)} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (dtype == "i32") return load<std::int32_t>(at);
  if (dtype == "i64") return static_cast<double>(load<std::int64_t>(at));
  if (dtype == "i8") return load<std::int8_t>(at);
  return load<std::uint8_t>(at);
}

// Distance between neighbouring values of the dtype at `value`.
inline double ulp(double value, const DTypeInfo& info) {
  if (info.mantissa_bits == 0) return 1;
  const int exponent =
      value == 0 || !std::isfinite(value) ? info.least_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, info.least_exponent) - info.mantissa_bits);
}
