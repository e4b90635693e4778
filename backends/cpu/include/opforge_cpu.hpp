// For CPU kernels (ops/<group>/<op>/cpu.cc): vectors of f32 whatever the element type, memory
// helpers, exp. Freestanding: nothing of libc, libm or libstdc++ is called. Highway's static
// dispatch picks the vector width from the target's flags: 4 lanes (x86-64-v2), 8 (v3), 16 (v4).
// Use: `using namespace opforge::cpu;`.
//
// A Pair is two f32 registers that hold kPair elements of T in memory:
//   f32   a, b = two consecutive registers
//   bf16  one register of memory, a = even elements, b = odd elements. A bf16 is the high half of
//   an f32, so widening is
//         one shift and one mask, and narrowing needs no permute; elementwise work and sums over a
//         row never notice, as long as every operand is loaded with the same T (for a weight of
//         another type see load_as)
//   f16   a, b = first and second half of one register of memory
// Arithmetic is in f32. Stores round to nearest even and NaN stays NaN.
#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>

#include "opforge_types.hpp"

namespace opforge {
namespace cpu {
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using U32Tag = hn::ScalableTag<uint32_t>;
using U16Tag = hn::ScalableTag<uint16_t>;
using I32Tag = hn::ScalableTag<int32_t>;
using F = hn::Vec<F32Tag>;
using U = hn::Vec<U32Tag>;

inline constexpr F32Tag kF32{};
inline constexpr U32Tag kU32{};
inline constexpr I32Tag kI32{};
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F32Tag()));
inline constexpr int64_t kPair = 2 * kLanes;

struct Pair {
  F a, b;
};

OPFORGE_INLINE F set(float value) { return hn::Set(kF32, value); }
OPFORGE_INLINE Pair both(float value) { return {set(value), set(value)}; }
OPFORGE_INLINE Pair both(F value) { return {value, value}; }
OPFORGE_INLINE Pair add(Pair x, Pair y) { return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)}; }
OPFORGE_INLINE Pair sub(Pair x, Pair y) { return {hn::Sub(x.a, y.a), hn::Sub(x.b, y.b)}; }
OPFORGE_INLINE Pair mul(Pair x, Pair y) { return {hn::Mul(x.a, y.a), hn::Mul(x.b, y.b)}; }
OPFORGE_INLINE Pair div(Pair x, Pair y) { return {hn::Div(x.a, y.a), hn::Div(x.b, y.b)}; }
// x * y + z: one rounding on v3 and v4, two on v2.
OPFORGE_INLINE Pair fma(Pair x, Pair y, Pair z) {
  return {hn::MulAdd(x.a, y.a, z.a), hn::MulAdd(x.b, y.b, z.b)};
}

// The larger; where either is NaN, one of the two: use max_nan where a NaN must come through.
OPFORGE_INLINE F max(F x, F y) { return hn::Max(x, y); }
OPFORGE_INLINE Pair max(Pair x, Pair y) { return {hn::Max(x.a, y.a), hn::Max(x.b, y.b)}; }
// The larger; NaN where either is NaN.
OPFORGE_INLINE F max_nan(F x, F y) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsNaN(y), y, hn::Max(x, y)));
}
OPFORGE_INLINE Pair max_nan(Pair x, Pair y) { return {max_nan(x.a, y.a), max_nan(x.b, y.b)}; }

// ---- loads and stores
// ----------------------------------------------------------------------------------------------

// kPair elements at p, any alignment.
template <class T>
OPFORGE_INLINE Pair load(const T* p) {
  if constexpr (is_same<T, float>) {
    return {hn::LoadU(kF32, p), hn::LoadU(kF32, p + kLanes)};
  } else if constexpr (is_same<T, bf16>) {
    const U bits = hn::LoadU(kU32, reinterpret_cast<const uint32_t*>(p));
    return {hn::BitCast(kF32, hn::ShiftLeft<16>(bits)),
            hn::BitCast(kF32, hn::And(bits, hn::Set(kU32, 0xffff0000u)))};
  } else {
    static_assert(is_same<T, f16>, "load: T is float, bf16 or f16");
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, F32Tag> half;
    const auto* q = reinterpret_cast<const hwy::float16_t*>(p);
    return {hn::PromoteTo(kF32, hn::LoadU(half, q)),
            hn::PromoteTo(kF32, hn::LoadU(half, q + kLanes))};
#else  // no F16C: Highway's own code does not know infinity and NaN
    alignas(64) float lanes[kPair];
    for (int64_t i = 0; i < kPair; i++) lanes[i] = to_f32(p[i]);
    return {hn::Load(kF32, lanes), hn::Load(kF32, lanes + kLanes)};
#endif
  }
}

// x rounded to bf16 in the high half of each lane; the low half is not cleared.
OPFORGE_INLINE U round_bf16(F x) {
  const U bits = hn::BitCast(kU32, x);
  const U odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU32, 1u));
  const U rounded = hn::Add(bits, hn::Add(odd, hn::Set(kU32, 0x7fffu)));
  const U quiet = hn::Or(
      bits, hn::Set(kU32, 0x00400000u));  // rounding could carry a NaN's payload into the sign
  return hn::IfThenElse(hn::RebindMask(kU32, hn::IsNaN(x)), quiet, rounded);
}

// kPair elements to p. kStream: non-temporal; p must then be 64-byte aligned (can_stream), and the
// block function must end with fence_streams().
template <bool kStream = false, class T>
OPFORGE_INLINE void store(T* p, Pair v) {
  if constexpr (is_same<T, float>) {
    if constexpr (kStream) {
      hn::Stream(v.a, kF32, p);
      hn::Stream(v.b, kF32, p + kLanes);
    } else {
      hn::StoreU(v.a, kF32, p);
      hn::StoreU(v.b, kF32, p + kLanes);
    }
  } else if constexpr (is_same<T, bf16>) {
    const U even = hn::ShiftRight<16>(round_bf16(v.a));
    const U word = hn::BitCast(
        kU32, hn::OddEven(hn::BitCast(U16Tag(), round_bf16(v.b)), hn::BitCast(U16Tag(), even)));
    auto* q = reinterpret_cast<uint32_t*>(p);
    if constexpr (kStream) {
      hn::Stream(word, kU32, q);
    } else {
      hn::StoreU(word, kU32, q);
    }
  } else {
    static_assert(is_same<T, f16>, "store: T is float, bf16 or f16");
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, F32Tag> half;
    const hn::Rebind<uint16_t, F32Tag> raw;
    const auto low = hn::BitCast(raw, hn::DemoteTo(half, v.a)),
               high = hn::BitCast(raw, hn::DemoteTo(half, v.b));
    auto* q = reinterpret_cast<uint16_t*>(p);
    if constexpr (kStream) {
      hn::Stream(hn::Combine(U16Tag(), high, low), U16Tag(), q);
    } else {
      hn::StoreU(low, raw, q);
      hn::StoreU(high, raw, q + kLanes);
    }
#else
    alignas(64) float lanes[kPair];
    hn::Store(v.a, kF32, lanes);
    hn::Store(v.b, kF32, lanes + kLanes);
    for (int64_t i = 0; i < kPair; i++) p[i] = from_f32<T>(lanes[i]);
#endif
  }
}

// The first n (0 <= n < kPair) elements at p; the others are `fill`. Nothing past p + n is read.
// Copies through the stack: Highway's masked loads read whole registers for 16-bit elements below
// AVX-512, and tails are rare.
template <class T>
OPFORGE_INLINE Pair load_n(const T* p, int64_t n, float fill = 0.0f) {
  alignas(64) T buffer[kPair];
  for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
  for (int64_t i = n; i < kPair; i++) buffer[i] = from_f32<T>(fill);
  return load(buffer);
}
template <class T>
OPFORGE_INLINE void store_n(T* p, Pair v, int64_t n) {
  alignas(64) T buffer[kPair];
  store(buffer, v);
  for (int64_t i = 0; i < n; i++) p[i] = buffer[i];
}

// kPair elements of type W in the lane order of load<T>: for mixed dtypes (bf16 data with an f32
// weight).
template <class T, class W>
OPFORGE_INLINE Pair load_as(const W* p) {
  const Pair v = load(p);
  if constexpr (is_same<T, bf16> == is_same<W, bf16>) {
    return v;
  } else if constexpr (is_same<T, bf16>) {  // consecutive -> even, odd
    return {hn::ConcatEven(kF32, v.b, v.a), hn::ConcatOdd(kF32, v.b, v.a)};
  } else {  // even, odd -> consecutive
    alignas(64) float lanes[kPair];
    for (int64_t i = 0; i < kPair; i++) lanes[i] = to_f32(p[i]);
    return {hn::Load(kF32, lanes), hn::Load(kF32, lanes + kLanes)};
  }
}
template <class T, class W>
OPFORGE_INLINE Pair load_as_n(const W* p, int64_t n, float fill = 0.0f) {
  alignas(64) W buffer[kPair];
  for (int64_t i = 0; i < n; i++) buffer[i] = p[i];
  for (int64_t i = n; i < kPair; i++) buffer[i] = from_f32<W>(fill);
  return load_as<T>(buffer);
}

// ---- cache
// ---------------------------------------------------------------------------------------------------------

// Streaming pays where the output is not read again soon; it needs 64-byte alignment of every kPair
// group.
OPFORGE_INLINE bool can_stream(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) & 63u) == 0;
}
// After non-temporal stores and before the block function returns: other threads must see them.
OPFORGE_INLINE void fence_streams() { hwy::FlushStream(); }

// Ask for the lines of a Pair of T that lies `bytes` ahead of p. Also crosses 4 KiB pages, which
// the hardware prefetcher does not. Prefetching past the end is harmless. Probe results: flat
// streams L2 8 KiB ahead, rows L2 2 KiB, arithmetic-heavy code L1 1 KiB; bytes = 0: none.
template <class T, int kBytes, int kLevel = 2>
OPFORGE_INLINE void prefetch(const T* p) {
  if constexpr (kBytes > 0) {
    const char* ahead = reinterpret_cast<const char*>(p) + kBytes;
    for (int64_t line = 0; line < kPair * static_cast<int64_t>(sizeof(T)); line += 64) {
      __builtin_prefetch(ahead + line, 0, kLevel == 1 ? 3 : 2);
    }
  }
}

// ---- reductions over lanes, in an order that the code fixes
// ---------------------------------------------------------

// Halves are added pairwise, so the order depends on the vector width only: one bit class per
// target.
OPFORGE_INLINE float lane_sum(F x) { return hn::GetLane(hn::SumOfLanes(kF32, x)); }
OPFORGE_INLINE float lane_sum(Pair x) { return lane_sum(hn::Add(x.a, x.b)); }
// NaN is ignored or returned, as the hardware has it: test for NaN with any_nan where it matters.
OPFORGE_INLINE float lane_max(F x) { return hn::GetLane(hn::MaxOfLanes(kF32, x)); }
OPFORGE_INLINE float lane_max(Pair x) { return lane_max(hn::Max(x.a, x.b)); }
OPFORGE_INLINE bool any_nan(F x) { return !hn::AllFalse(kF32, hn::IsNaN(x)); }
OPFORGE_INLINE bool any_nan(Pair x) { return any_nan(x.a) || any_nan(x.b); }

// ---- functions
// -----------------------------------------------------------------------------------------------------

OPFORGE_INLINE float sqrt_f32(float x) { return __builtin_sqrtf(x); }          // correctly rounded
OPFORGE_INLINE float rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }  // 1 ulp

// p * 2^n for integral n in [-300, 300]: overflows to infinity and rounds into the subnormals.
OPFORGE_INLINE F scale_by_power(F p, F n) {
#if HWY_TARGET <= HWY_AVX3
  return F{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const auto whole = hn::ConvertTo(kI32, n), half = hn::ShiftRight<1>(whole),
             rest = hn::Sub(whole, half);
  const auto bias = hn::Set(kI32, 127);
  const F x = hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const F y = hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(rest, bias)));
  return hn::Mul(hn::Mul(p, x), y);
#endif
}

// e^x within 2 ulp over the whole line (infinity above 88.73, 0 below -104, NaN for NaN). kShort:
// relative error 2^-13, for results that are rounded to bf16. Polynomials of 2^f on [-1/2, 1/2]
// (short) and of (e^r - 1 - r) / r^2 fitted by minimax.
template <bool kShort = false>
OPFORGE_INLINE F exp(F x) {
  const F magic = set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F low = set(-104.0f), high = set(89.0f);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);  // comparisons are false for NaN, which stays
  x = hn::IfThenElse(hn::Lt(high, x), high, x);
  if constexpr (kShort) {
    const F t = hn::Mul(x, set(1.44269504f)), n = hn::Sub(hn::Add(t, magic), magic),
            f = hn::Sub(t, n);
    F p = hn::MulAdd(set(0.0551706068f), f, set(0.242611036f));
    p = hn::MulAdd(p, f, set(0.693261206f));
    return scale_by_power(hn::MulAdd(p, f, set(0.999928057f)), n);
  } else {
    const F n = hn::Sub(hn::MulAdd(x, set(1.44269504f), magic), magic);
    F r = hn::NegMulAdd(n, set(0.693145752f), x);  // ln 2 in two parts: the first product is exact
    r = hn::NegMulAdd(n, set(1.42860682e-6f), r);
    F q = hn::MulAdd(set(0.00139012141f), r, set(0.00836320035f));
    q = hn::MulAdd(q, r, set(0.0416668542f));
    q = hn::MulAdd(q, r, set(0.166665763f));
    q = hn::MulAdd(q, r, set(0.5f));
    const F p = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), set(1.0f));
    return scale_by_power(p, n);
  }
}
template <bool kShort = false>
OPFORGE_INLINE Pair exp(Pair x) {
  return {exp<kShort>(x.a), exp<kShort>(x.b)};
}

}  // namespace cpu
}  // namespace opforge
