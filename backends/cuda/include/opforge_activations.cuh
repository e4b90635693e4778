// Activation functions in f32, accurate in both tails, and their derivatives. Every function gives
// NaN for NaN (hence comparisons and no fminf) and its limit at an infinity.
//
// u = 2^-24. The errors below are relative, and hold besides 2^-149 (1 + |x|) where results are
// subnormal.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

// e^x within (6 + 2 |x|) u, infinity above 88.7.
OPFORGE_DEVICE float natural_exp(float x) { return exp2_for<float>(x * kLog2e); }

// The lower tail of the normal distribution for z in [0, 15]: exp(-z^2 / 2), within (6 + 1.5 z^2)
// u, and Phi(-z), within (14 + 1.5 z^2) u. Phi(-z) = exp(-z^2 / 2) p(q) / (1 + 1.2 z) with q = (z -
// 4) / (z + 4): a polynomial fitted at Chebyshev nodes, 4.3e-8 off at most. The map to q is that of
// M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math.
// Comp. 36 (1981).
struct NormalTail {
  float exponential, phi;
};
OPFORGE_DEVICE NormalTail normal_tail(float z) {
  const float q = (z - 4.0f) / (z + 4.0f);
  float p = fmaf(1.24301907e-4f, q, 9.07311624e-4f);
  p = fmaf(p, q, -6.26207097e-4f);
  p = fmaf(p, q, -6.16731401e-3f);
  p = fmaf(p, q, 0.0232586987f);
  p = fmaf(p, q, -0.0447933637f);
  p = fmaf(p, q, 0.0486584641f);
  p = fmaf(p, q, -8.07763077e-3f);
  p = fmaf(p, q, -0.0819645301f);
  p = fmaf(p, q, 0.547581732f);
  const float e = natural_exp(-0.5f * (z * z));
  return {e, e * p / fmaf(z, 1.2f, 1.0f)};
}

// The logistic function: s = 1 / (1 + exp(-x)), within (8 + 2 |x|) u for x < 0 and 8 u elsewhere,
// and t = 1 - s, which is as accurate on the other side.
struct Logistic {
  float s, t;
};
OPFORGE_DEVICE Logistic logistic(float x) {
  const float e = natural_exp(-fabsf(x));
  const float large = 1.0f / (1.0f + e), small = e * large;
  return x < 0.0f ? Logistic{small, large} : Logistic{large, small};
}

// x Phi(x).
OPFORGE_DEVICE float gelu_erf(float x) {
  const float a = fabsf(x), z = a > 15.0f ? 15.0f : a;
  return (x < 0.0f ? 0.0f : x) - z * normal_tail(z).phi;
}
// Phi(x) + x phi(x); 0.398942280 = 1 / sqrt(2 pi).
OPFORGE_DEVICE float gelu_erf_slope(float x) {
  const float a = fabsf(x), z = a > 15.0f ? 15.0f : a;
  const NormalTail tail = normal_tail(z);
  const float left = fmaf(-0.398942280f * z, tail.exponential, tail.phi);
  return x < 0.0f ? left : 1.0f - left;
}

// 2 sqrt(2 / pi) (x + 0.044715 x^3): x * logistic of it is 0.5 x (1 + tanh(half of it)).
OPFORGE_DEVICE float gelu_tanh_argument(float x) {
  return x * 1.59576912f * fmaf(x * x, 0.044715f, 1.0f);
}
OPFORGE_DEVICE float gelu_tanh(float x) {
  x = x < -20.0f ? -20.0f : x;
  return x * logistic(gelu_tanh_argument(x)).s;
}
OPFORGE_DEVICE float gelu_tanh_slope(float x) {
  x = x < -20.0f ? -20.0f : x > 20.0f ? 20.0f : x;
  const Logistic l = logistic(gelu_tanh_argument(x));
  return fmaf(x * (1.59576912f * fmaf(x * x, 0.134145f, 1.0f)) * l.s, l.t, l.s);
}

OPFORGE_DEVICE float silu(float x) {
  x = x < -1000.0f ? -1000.0f : x;  // -inf * 0 would be NaN
  return x * logistic(x).s;
}
OPFORGE_DEVICE float silu_slope(float x) {
  x = x < -1000.0f ? -1000.0f : x > 1000.0f ? 1000.0f : x;
  const Logistic l = logistic(x);
  return fmaf(x * l.s, l.t, l.s);
}

OPFORGE_DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }
OPFORGE_DEVICE float relu_gradient(float dy, float x) {
  return x <= 0.0f ? 0.0f : x > 0.0f ? dy : x;
}
template <int kForm>  // 0: erf, 1: tanh
OPFORGE_DEVICE float gelu(float x) {
  if constexpr (kForm == 0) return gelu_erf(x);
  return gelu_tanh(x);
}
template <int kForm>
OPFORGE_DEVICE float gelu_slope(float x) {
  if constexpr (kForm == 0) return gelu_erf_slope(x);
  return gelu_tanh_slope(x);
}

}  // namespace opforge
