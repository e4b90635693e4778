// Sums of up to 32 neighbouring elements, in the order of a warp's butterfly: lane i adds lane i + 16, then + 8, 4, 2, 1. The
// order is that of the code, whatever the vector width: the bits are the same on every target.
// Work items are groups, counted over all rows.
#include "opforge_cpu.hpp"

namespace opforge {
namespace cpu {

inline constexpr int64_t kGroup = 32;

OPFORGE_INLINE float butterfly(float (&v)[kGroup]) {
  for (int64_t o = kGroup / 2; o > 0; o /= 2) {
    for (int64_t i = 0; i < o; i++) v[i] += v[i + o];
  }
  return v[0];
}

template <class V>
void warp_reduce_sum(const void* x, void* y, int64_t columns, int64_t x_row, int64_t x_column, int64_t y_row,
                     int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const int64_t step = V::LAYOUT == 1 ? 1 : x_column;
  const int64_t groups = (columns + kGroup - 1) / kGroup;
  int64_t row = begin / groups, group = begin % groups;
  for (int64_t item = begin; item < end; item++) {
    const int64_t count = columns - group * kGroup < kGroup ? columns - group * kGroup : kGroup;
    const T* from = static_cast<const T*>(x) + row * x_row + group * kGroup * step;
    alignas(64) float v[kGroup];
    if (count == kGroup) {
      for (int64_t i = 0; i < kGroup; i++) v[i] = to_f32(from[i * step]);
    } else {
      for (int64_t i = 0; i < kGroup; i++) v[i] = i < count ? to_f32(from[i * step]) : 0.0f;
    }
    static_cast<T*>(y)[row * y_row + group * y_column] = from_f32<T>(butterfly(v));
    if (++group == groups) {
      group = 0;
      row++;
    }
  }
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::warp_reduce_sum;
