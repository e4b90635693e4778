#include "tensor/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace opforge {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
  // Floating only: stored mantissa bits, exponent bias (so the least normal exponent is 1 - bias),
  // the bits of the largest finite value and of infinity (the NaN pattern where there is no
  // infinity).
  int mantissa = 0, bias = 0;
  std::uint32_t largest_bits = 0, overflow_bits = 0, nan_bits = 0;
  bool floating = false;
};

// In the order of DType. f8e4m3 is the variant of OCP FP8 without infinities (largest 448); beyond
// it a value becomes NaN.
constexpr Row kRows[kDTypeCount] = {
    {"f64", 8, 52, 1023, 0, 0, 0, true},
    {"f32", 4, 23, 127, 0, 0, 0, true},
    {"f16", 2, 10, 15, 0x7bff, 0x7c00, 0x7e00, true},
    {"bf16", 2, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, true},
    {"i8", 1},
    {"u8", 1},
    {"i32", 4},
    {"i64", 8},
    {"u32", 4},
    {"u64", 8},
    {"bool", 1},
    {"f8e4m3", 1, 3, 7, 0x7e, 0x7f, 0x7f, true},
    {"f8e5m2", 1, 2, 15, 0x7b, 0x7c, 0x7e, true},
};

constexpr const Row& row(DType dtype) { return kRows[static_cast<int>(dtype)]; }

template <class T>
T read_as(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void write_as(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// A small float (at most 16 bits) to double. Integer work only, so that no flush-to-zero mode can
// change a subnormal.
double expand(std::uint32_t bits, const Row& format) {
  const int sign_shift = static_cast<int>(format.bytes) * 8 - 1;
  const bool negative = (bits >> sign_shift) & 1;
  const std::uint32_t magnitude = bits & ((1u << sign_shift) - 1);
  const std::uint64_t sign = static_cast<std::uint64_t>(negative) << 63;
  if (magnitude > format.largest_bits) {
    const bool infinite =
        magnitude == format.overflow_bits && format.overflow_bits != format.nan_bits;
    return std::bit_cast<double>(sign | (infinite ? 0x7ff0000000000000ULL : 0x7ff8000000000000ULL));
  }
  const std::uint32_t mantissa = magnitude & ((1u << format.mantissa) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  if (exponent == 0) {
    const double value =
        std::ldexp(static_cast<double>(mantissa), 1 - format.bias - format.mantissa);
    return negative ? -value : value;
  }
  const auto biased = static_cast<std::uint64_t>(exponent - format.bias + 1023);
  return std::bit_cast<double>(sign | biased << 52 |
                               static_cast<std::uint64_t>(mantissa) << (52 - format.mantissa));
}

// Double to a small float: one rounding, to nearest even, whatever the rounding mode of the
// process.
std::uint32_t shrink(double value, const Row& format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63) << (format.bytes * 8 - 1);
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (biased == 0x7ff) return sign | (fraction != 0 ? format.nan_bits : format.overflow_bits);
  if (biased == 0)
    return sign;  // zero, or a double subnormal: far below half of any small float's least value
  const int least = 1 - format.bias;
  const int exponent = biased - 1023;
  const int quantum_exponent = exponent < least ? least : exponent;
  const int shift = 52 - format.mantissa + (quantum_exponent - exponent);
  if (shift > 53) return sign;  // below half of the least subnormal
  if (exponent > format.bias + 1) return sign | format.overflow_bits;
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  std::uint64_t rounded = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1),
                      half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // Adding lets a carry out of the mantissa move into the exponent, and makes a subnormal's
  // exponent field 0.
  const std::uint64_t magnitude =
      (static_cast<std::uint64_t>(quantum_exponent + format.bias) << format.mantissa) + rounded -
      (std::uint64_t{1} << format.mantissa);
  return sign | (magnitude > format.largest_bits ? format.overflow_bits
                                                 : static_cast<std::uint32_t>(magnitude));
}

// Nearest even, saturated; NaN gives 0, since an integer has no NaN.
template <class T>
T to_integer(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  constexpr auto least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  // `most` of a 64-bit type is not a double; the next power of two is.
  if (rounded >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return most;
  if (rounded <= static_cast<double>(least)) return least;
  return static_cast<T>(rounded);
}

float to_float(double value) {
  // The conversion of an out-of-range double is undefined in C++ text but infinity in IEEE
  // arithmetic, which both supported compilers follow; clamping would lose the rounding at the
  // border.
  return static_cast<float>(value);
}

}  // namespace

std::size_t itemsize(DType dtype) { return row(dtype).bytes; }

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

bool is_floating(DType dtype) { return row(dtype).floating; }

Result<DType> parse_dtype(std::string_view name) {
  std::string valid;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
    valid += (i > 0 ? ", " : "") + std::string(kRows[i].name);
  }
  return fail(Code::kInvalidArgument, "unknown dtype '" + std::string(name) + "'; valid: " + valid,
              "tensor/dtype");
}

double load_as_double(const void* element, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return read_as<double>(element);
    case DType::kF32:
      return read_as<float>(element);
    case DType::kF16:
    case DType::kBF16:
      return expand(read_as<std::uint16_t>(element), row(dtype));
    case DType::kI8:
      return read_as<std::int8_t>(element);
    case DType::kU8:
      return read_as<std::uint8_t>(element);
    case DType::kI32:
      return read_as<std::int32_t>(element);
    case DType::kI64:
      return static_cast<double>(read_as<std::int64_t>(element));
    case DType::kU32:
      return read_as<std::uint32_t>(element);
    case DType::kU64:
      return static_cast<double>(read_as<std::uint64_t>(element));
    case DType::kBool:
      return read_as<std::uint8_t>(element) != 0 ? 1.0 : 0.0;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return expand(read_as<std::uint8_t>(element), row(dtype));
  }
  return 0;
}

void store_from_double(void* element, DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return write_as(element, value);
    case DType::kF32:
      return write_as(element, to_float(value));
    case DType::kF16:
    case DType::kBF16:
      return write_as(element, static_cast<std::uint16_t>(shrink(value, row(dtype))));
    case DType::kI8:
      return write_as(element, to_integer<std::int8_t>(value));
    case DType::kU8:
      return write_as(element, to_integer<std::uint8_t>(value));
    case DType::kI32:
      return write_as(element, to_integer<std::int32_t>(value));
    case DType::kI64:
      return write_as(element, to_integer<std::int64_t>(value));
    case DType::kU32:
      return write_as(element, to_integer<std::uint32_t>(value));
    case DType::kU64:
      return write_as(element, to_integer<std::uint64_t>(value));
    case DType::kBool:
      return write_as(element, static_cast<std::uint8_t>(value != 0));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return write_as(element, static_cast<std::uint8_t>(shrink(value, row(dtype))));
  }
}

double ulp_at(double value, DType dtype) {
  const Row& format = row(dtype);
  if (!format.floating) return 1;
  const int least = 1 - format.bias;
  const double magnitude =
      std::fmin(std::fabs(value), largest_finite(dtype));  // NaN and infinity: the largest's
  int exponent = least;
  if (magnitude > 0) exponent = std::max(least, std::ilogb(magnitude));
  return std::ldexp(1.0, exponent - format.mantissa);
}

double epsilon(DType dtype) {
  return is_floating(dtype) ? std::ldexp(1.0, -row(dtype).mantissa) : 1;
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kF32:
      return std::numeric_limits<float>::max();
    case DType::kI8:
      return 127;
    case DType::kU8:
      return 255;
    case DType::kI32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<std::uint32_t>::max();
    case DType::kI64:
      return static_cast<double>(std::numeric_limits<std::int64_t>::max());
    case DType::kU64:
      return static_cast<double>(std::numeric_limits<std::uint64_t>::max());
    case DType::kBool:
      return 1;
    default:
      return expand(row(dtype).largest_bits, row(dtype));
  }
}

}  // namespace opforge
