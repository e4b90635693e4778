// Activation functions on vectors of f32, accurate in both tails. Every function gives NaN for NaN
// and its limit at an infinity.
#pragma once

#include "opforge_opencl.h"

// Phi(-z) of the normal distribution for z in [0, 15]: exp(-z^2 / 2) p(q) / (1 + 1.2 z) with
// q = (z - 4) / (z + 4): a polynomial fitted at Chebyshev nodes, 4.3e-8 off at most. The map to q is
// that of M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x",
// Math. Comp. 36 (1981).
static inline float8 opforge_normal_tail(float8 z) {
  const float8 q = (z - 4.0f) / (z + 4.0f);
  float8 p = fma((float8)(1.24301907e-4f), q, (float8)(9.07311624e-4f));
  p = fma(p, q, (float8)(-6.26207097e-4f));
  p = fma(p, q, (float8)(-6.16731401e-3f));
  p = fma(p, q, (float8)(0.0232586987f));
  p = fma(p, q, (float8)(-0.0447933637f));
  p = fma(p, q, (float8)(0.0486584641f));
  p = fma(p, q, (float8)(-8.07763077e-3f));
  p = fma(p, q, (float8)(-0.0819645301f));
  p = fma(p, q, (float8)(0.547581732f));
  return exp(-0.5f * (z * z)) * p / fma(z, (float8)(1.2f), (float8)(1.0f));
}

// 1 / (1 + exp(-x)).
static inline float8 opforge_logistic(float8 x) {
  const float8 e = exp(-fabs(x));
  const float8 large = 1.0f / (1.0f + e);
  return select(large, e * large, x < 0.0f);
}

static inline float8 opforge_gelu_erf(float8 x) {
  const float8 a = fabs(x), z = select(a, (float8)(15.0f), a > 15.0f);
  return select(x, (float8)(0.0f), x < 0.0f) - z * opforge_normal_tail(z);
}

// 2 sqrt(2 / pi) (x + 0.044715 x^3): x * logistic of it is 0.5 x (1 + tanh(half of it)).
static inline float8 opforge_gelu_tanh(float8 x) {
  x = select(x, (float8)(-20.0f), x < -20.0f);
  return x * opforge_logistic(x * 1.59576912f * fma(x * x, (float8)(0.044715f), (float8)(1.0f)));
}

static inline float8 opforge_silu(float8 x) {
  x = select(x, (float8)(-1000.0f), x < -1000.0f);  // -inf * 0 would be NaN
  return x * opforge_logistic(x);
}
