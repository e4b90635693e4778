// Activation functions on vectors of f32, accurate in both tails, and their derivatives. Every
// function gives NaN for NaN and its limit at an infinity.
//
// u = 2^-24. The errors below are relative, and hold besides 2^-149 (1 + |x|) where results are
// subnormal.
#pragma once

#include "opforge_cpu.hpp"

namespace opforge {
namespace cpu {

// hn::Min and hn::Max return their second operand where one is NaN.
OPFORGE_INLINE F at_most(F limit, F x) { return hn::Min(limit, x); }
OPFORGE_INLINE F at_least(F limit, F x) { return hn::Max(limit, x); }

// The lower tail of the normal distribution for z in [0, 15]: exp(-z^2 / 2), within (4 + z^2 / 2)
// u, and Phi(-z), within (12 + z^2 / 2) u. Phi(-z) = exp(-z^2 / 2) p(q) / (1 + 1.2 z) with q = (z -
// 4) / (z + 4): a polynomial fitted at Chebyshev nodes, 4.3e-8 off at most. The map to q is that of
// M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math.
// Comp. 36 (1981).
struct NormalTail {
  F exponential, phi;
};
OPFORGE_INLINE NormalTail normal_tail(F z) {
  const F four = set(4.0f), one = set(1.0f);
  const F q = hn::Div(hn::Sub(z, four), hn::Add(z, four));
  F p = hn::MulAdd(set(1.24301907e-4f), q, set(9.07311624e-4f));
  p = hn::MulAdd(p, q, set(-6.26207097e-4f));
  p = hn::MulAdd(p, q, set(-6.16731401e-3f));
  p = hn::MulAdd(p, q, set(0.0232586987f));
  p = hn::MulAdd(p, q, set(-0.0447933637f));
  p = hn::MulAdd(p, q, set(0.0486584641f));
  p = hn::MulAdd(p, q, set(-8.07763077e-3f));
  p = hn::MulAdd(p, q, set(-0.0819645301f));
  p = hn::MulAdd(p, q, set(0.547581732f));
  const F e = exp(hn::Mul(hn::Mul(z, z), set(-0.5f)));
  return {e, hn::Div(hn::Mul(e, p), hn::MulAdd(z, set(1.2f), one))};
}

// The logistic function: s = 1 / (1 + exp(-x)), within (6 + |x|) u for x < 0 and 6 u elsewhere, and
// t = 1 - s, which is as accurate on the other side.
struct Logistic {
  F s, t;
};
OPFORGE_INLINE Logistic logistic(F x) {
  const F one = set(1.0f), e = exp(hn::Neg(hn::Abs(x)));
  const F large = hn::Div(one, hn::Add(one, e)), small = hn::Mul(e, large);
  const auto negative = hn::Lt(x, hn::Zero(kF32));
  return {hn::IfThenElse(negative, small, large), hn::IfThenElse(negative, large, small)};
}

// x Phi(x).
OPFORGE_INLINE F gelu_erf(F x) {
  const F z = at_most(set(15.0f), hn::Abs(x));
  return hn::Sub(at_least(hn::Zero(kF32), x), hn::Mul(z, normal_tail(z).phi));
}
// Phi(x) + x phi(x); 0.398942280 = 1 / sqrt(2 pi).
OPFORGE_INLINE F gelu_erf_slope(F x) {
  const F z = at_most(set(15.0f), hn::Abs(x));
  const NormalTail tail = normal_tail(z);
  // 1 - (Phi(-z) - z phi(z)) on the right, Phi(-z) - z phi(z) on the left.
  const F left = hn::NegMulAdd(hn::Mul(z, set(0.398942280f)), tail.exponential, tail.phi);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kF32)), left, hn::Sub(set(1.0f), left));
}

// 2 sqrt(2 / pi) (x + 0.044715 x^3): x * logistic of it is 0.5 x (1 + tanh(half of it)).
OPFORGE_INLINE F gelu_tanh_argument(F x) {
  return hn::Mul(hn::Mul(x, set(1.59576912f)),
                 hn::MulAdd(hn::Mul(x, x), set(0.044715f), set(1.0f)));
}
OPFORGE_INLINE F gelu_tanh(F x) {
  x = at_least(set(-20.0f), x);
  return hn::Mul(x, logistic(gelu_tanh_argument(x)).s);
}
OPFORGE_INLINE F gelu_tanh_slope(F x) {
  x = at_most(set(20.0f), at_least(set(-20.0f), x));
  const Logistic l = logistic(gelu_tanh_argument(x));
  const F inner = hn::Mul(set(1.59576912f), hn::MulAdd(hn::Mul(x, x), set(0.134145f), set(1.0f)));
  return hn::MulAdd(hn::Mul(hn::Mul(x, inner), l.s), l.t, l.s);
}

OPFORGE_INLINE F silu(F x) {
  x = at_least(set(-1000.0f), x);  // -inf * 0 would be NaN
  return hn::Mul(x, logistic(x).s);
}
OPFORGE_INLINE F silu_slope(F x) {
  x = at_most(set(1000.0f), at_least(set(-1000.0f), x));
  const Logistic l = logistic(x);
  return hn::MulAdd(hn::Mul(x, l.s), l.t, l.s);
}

OPFORGE_INLINE Pair relu(Pair x) {
  const F zero = hn::Zero(kF32);
  return {at_least(zero, x.a), at_least(zero, x.b)};
}
OPFORGE_INLINE F relu_gradient(F dy, F x) {
  const F zero = hn::Zero(kF32);
  return hn::IfThenElse(hn::Le(x, zero), zero, hn::IfThenElse(hn::IsNaN(x), x, dy));
}
OPFORGE_INLINE Pair relu_gradient(Pair dy, Pair x) {
  return {relu_gradient(dy.a, x.a), relu_gradient(dy.b, x.b)};
}
template <int kForm>  // 0: erf, 1: tanh
OPFORGE_INLINE Pair gelu(Pair x) {
  if constexpr (kForm == 0) return {gelu_erf(x.a), gelu_erf(x.b)};
  return {gelu_tanh(x.a), gelu_tanh(x.b)};
}
template <int kForm>
OPFORGE_INLINE Pair gelu_slope(Pair x) {
  if constexpr (kForm == 0) return {gelu_erf_slope(x.a), gelu_erf_slope(x.b)};
  return {gelu_tanh_slope(x.a), gelu_tanh_slope(x.b)};
}
OPFORGE_INLINE Pair silu(Pair x) { return {silu(x.a), silu(x.b)}; }
OPFORGE_INLINE Pair silu_slope(Pair x) { return {silu_slope(x.a), silu_slope(x.b)}; }

}  // namespace cpu
}  // namespace opforge
