// Rotary embeddings in CUDA C++: a thread has a pair of elements, or one of those that are not
// turned. Turning takes two products and an addition in f32. A token whose position is outside of
// the tables gets NaN where it should be turned.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

// A call of a rotary embedding: x[B,L,H,D] -> y, tables cos and sin [P,R], positions [B,L] or null.
// Strides in elements.
template <class T>
struct RopeCall {
  const T* x;
  const float *cos, *sin;
  const long long* positions;
  T* y;
  long long size_b, size_l, size_h, size_d, size_p, size_r;
  long long x_strides[4], y_strides[4], cos_strides[2], sin_strides[2], positions_strides[2];
  long long offset;
  bool interleaved;

  OPFORGE_DEVICE long long pairs() const { return size_r < size_d / 2 ? size_r : size_d / 2; }
  // Of a token; negative when it is outside of the tables.
  OPFORGE_DEVICE long long place(long long b, long long l) const {
    long long at = l;
    if (positions != nullptr) at = positions[b * positions_strides[0] + l * positions_strides[1]];
    at += offset;
    return at < size_p ? at : -1;
  }
  OPFORGE_DEVICE long long first(long long i) const { return interleaved ? 2 * i : i; }
  OPFORGE_DEVICE long long second(long long i) const {
    return interleaved ? 2 * i + 1 : i + pairs();
  }
};

// sign: 1 turns, -1 turns back. Both elements of a pair are read before one is written: y may be x.
template <class T>
OPFORGE_DEVICE void run_rope(const RopeCall<T>& call, float sign) {
  const long long pairs = call.pairs(), units = call.size_d - pairs;
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= call.size_b * call.size_l * call.size_h * units) return;
  const long long i = at % units, head = at / units, h = head % call.size_h;
  const long long token = head / call.size_h, l = token % call.size_l, b = token / call.size_l;
  const T* x = call.x + b * call.x_strides[0] + l * call.x_strides[1] + h * call.x_strides[2];
  T* y = call.y + b * call.y_strides[0] + l * call.y_strides[1] + h * call.y_strides[2];
  if (i >= pairs) {
    y[(pairs + i) * call.y_strides[3]] = x[(pairs + i) * call.x_strides[3]];
    return;
  }
  const long long place = call.place(b, l), first = call.first(i), second = call.second(i);
  float c = quiet_nan(), s = quiet_nan();
  if (place >= 0) {
    c = call.cos[place * call.cos_strides[0] + i * call.cos_strides[1]];
    s = sign * call.sin[place * call.sin_strides[0] + i * call.sin_strides[1]];
  }
  const float u = to_float(x[first * call.x_strides[3]]);
  const float v = to_float(x[second * call.x_strides[3]]);
  y[first * call.y_strides[3]] = from_float<T>(u * c - v * s);
  y[second * call.y_strides[3]] = from_float<T>(v * c + u * s);
}

}  // namespace opforge
