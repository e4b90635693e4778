// y = x, bit by bit: elements never pass through arithmetic, so that the payload of a NaN survives.
// V::LAYOUT 1: contiguous and aligned to 16 bytes, V::VECTORS vectors a thread; 0: any strides, an element a thread.
#include "opforge_cuda.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void copy(const void* x, void* y, long long rows, long long columns, long long x_row,
                         long long x_column, long long y_row, long long y_column) {
  using T = typename V::T;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  const long long count = rows * columns;
  if constexpr (V::LAYOUT == 1) {
    constexpr int kItems = 16 / static_cast<int>(sizeof(T));
    constexpr int kVectors = static_cast<int>(V::VECTORS);
    const long long first =
        (static_cast<long long>(blockIdx.x) * (V::BLOCK * kVectors) + static_cast<long long>(threadIdx.x)) * kItems;
    Vector<T, kItems> v[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const long long at = first + i * (V::BLOCK * kItems);
      if (at + kItems <= count) v[i] = load<kItems, Cache::kCached>(from + at);
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const long long at = first + i * (V::BLOCK * kItems);
      if (at + kItems <= count) {
        store(to + at, v[i]);
      } else {
        for (long long j = at; j < count; ++j) to[j] = from[j];
      }
    }
  } else {
    const long long at = static_cast<long long>(blockIdx.x) * V::BLOCK + static_cast<long long>(threadIdx.x);
    if (at >= count) return;
    const long long row = at / columns, column = at - row * columns;
    to[row * y_row + column * y_column] = from[row * x_row + column * x_column];
  }
}

}  // namespace opforge
using opforge::copy;
