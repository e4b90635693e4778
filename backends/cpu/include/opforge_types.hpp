// Element types of CPU kernels and their scalar conversions: integer code, the same on every
// instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace opforge {

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

namespace cpu {

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

#define OPFORGE_INLINE static inline __attribute__((always_inline))

OPFORGE_INLINE uint32_t f32_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}
OPFORGE_INLINE float f32_from_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

OPFORGE_INLINE float to_f32(float value) { return value; }
OPFORGE_INLINE float to_f32(bf16 value) {
  return f32_from_bits(static_cast<uint32_t>(value.bits) << 16);
}
OPFORGE_INLINE float to_f32(f16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return f32_from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u) return f32_from_bits(sign | ((rest << 13) + (112u << 23)));
  // Subnormal: rest * 2^-24 is exact in f32.
  return f32_from_bits(sign | f32_bits(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f));
}

template <class T>
OPFORGE_INLINE T from_f32(float value) {
  if constexpr (is_same<T, float>) {
    return value;
  } else if constexpr (is_same<T, bf16>) {
    const uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  } else {
    static_assert(is_same<T, f16>, "from_f32: T is float, bf16 or f16");
    const uint32_t bits = f32_bits(value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
      return {static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x1ffu))};
    if (rest >= 0x477ff000u)
      return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above round to infinity
    if (rest < 0x38800000u) {
      // Below 2^-14: adding 0.5 lines the f16 subnormal's last bit up with the f32's, and rounds to
      // nearest even.
      const uint32_t sum = f32_bits(f32_from_bits(rest) + 0.5f);
      return {static_cast<uint16_t>(sign | (sum - 0x3f000000u))};
    }
    const uint32_t odd = (rest >> 13) & 1u;
    return {static_cast<uint16_t>(sign | ((rest - (112u << 23) + 0xfffu + odd) >> 13))};
  }
}

}  // namespace cpu
}  // namespace opforge
