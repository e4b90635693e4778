// Rotary embeddings on the CPU: work items are tokens. Turning takes two products and an addition
// in f32. A token whose position is outside of the tables gets NaN where it should be turned.
#pragma once

#include "opforge_types.hpp"

namespace opforge {
namespace cpu {

// A call of a rotary embedding: x[B,L,H,D] -> y, tables cos and sin [P,R], positions [B,L] or null.
// Strides in elements.
template <class T>
struct RopeCall {
  const T* x;
  const float *cos, *sin;
  const int64_t* positions;
  T* y;
  int64_t size_l, size_h, size_d, size_p, size_r;
  int64_t x_strides[4], y_strides[4], cos_strides[2], sin_strides[2], positions_strides[2];
  int64_t offset;
  bool interleaved;

  inline __attribute__((always_inline)) int64_t pairs() const {
    return size_r < size_d / 2 ? size_r : size_d / 2;
  }
  // Of a token; negative when it is outside of the tables.
  inline __attribute__((always_inline)) int64_t place(int64_t b, int64_t l) const {
    int64_t at = l;
    if (positions != nullptr) at = positions[b * positions_strides[0] + l * positions_strides[1]];
    at += offset;
    return at < size_p ? at : -1;
  }
  inline __attribute__((always_inline)) int64_t first(int64_t i) const {
    return interleaved ? 2 * i : i;
  }
  inline __attribute__((always_inline)) int64_t second(int64_t i) const {
    return interleaved ? 2 * i + 1 : i + pairs();
  }
};

// sign: 1 turns, -1 turns back. Both elements of a pair are read before one is written: y may be x.
template <class T>
OPFORGE_INLINE void run_rope(const RopeCall<T>& call, float sign, int64_t begin, int64_t end) {
  const int64_t pairs = call.pairs(), xd = call.x_strides[3], yd = call.y_strides[3];
  for (int64_t token = begin; token < end; token++) {
    const int64_t b = token / call.size_l, l = token % call.size_l, place = call.place(b, l);
    const float* cos = call.cos + (place < 0 ? 0 : place * call.cos_strides[0]);
    const float* sin = call.sin + (place < 0 ? 0 : place * call.sin_strides[0]);
    for (int64_t h = 0; h < call.size_h; h++) {
      const T* x = call.x + b * call.x_strides[0] + l * call.x_strides[1] + h * call.x_strides[2];
      T* y = call.y + b * call.y_strides[0] + l * call.y_strides[1] + h * call.y_strides[2];
      for (int64_t i = 0; i < pairs; i++) {
        const int64_t first = call.first(i), second = call.second(i);
        const float c = place < 0 ? __builtin_nanf("") : cos[i * call.cos_strides[1]];
        const float s = place < 0 ? __builtin_nanf("") : sign * sin[i * call.sin_strides[1]];
        const float u = to_f32(x[first * xd]), v = to_f32(x[second * xd]);
        y[first * yd] = from_f32<T>(u * c - v * s);
        y[second * yd] = from_f32<T>(v * c + u * s);
      }
      for (int64_t i = 2 * pairs; i < call.size_d; i++) y[i * yd] = x[i * xd];
    }
  }
}

}  // namespace cpu
}  // namespace opforge
