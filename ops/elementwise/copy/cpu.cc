// y = x, bit by bit: elements never pass through arithmetic, so that the payload of a NaN survives.
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V, bool kStream, class T>
OPFORGE_INLINE void copy_span(const T* x, T* y, int64_t n) {
  constexpr int64_t kWord = 4 / static_cast<int64_t>(sizeof(T));  // elements in a 32-bit lane
  constexpr int64_t kVector = kLanes * kWord;
  int64_t i = 0;
  for (; i + 2 * kVector <= n; i += 2 * kVector) {
    prefetch<T, static_cast<int>(V::PREFETCH)>(x + i);
    const U low = hn::LoadU(kU32, reinterpret_cast<const uint32_t*>(x + i));
    const U high = hn::LoadU(kU32, reinterpret_cast<const uint32_t*>(x + i + kVector));
    if constexpr (kStream) {
      hn::Stream(low, kU32, reinterpret_cast<uint32_t*>(y + i));
      hn::Stream(high, kU32, reinterpret_cast<uint32_t*>(y + i + kVector));
    } else {
      hn::StoreU(low, kU32, reinterpret_cast<uint32_t*>(y + i));
      hn::StoreU(high, kU32, reinterpret_cast<uint32_t*>(y + i + kVector));
    }
  }
  for (; i < n; i++) y[i] = x[i];
}

template <class V, class T>
OPFORGE_INLINE void copy_dense(const T* x, T* y, int64_t n) {
  if (V::STREAM && can_stream(y)) {
    copy_span<V, true>(x, y, n);
  } else {
    copy_span<V, false>(x, y, n);
  }
}

template <class V>
void copy(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_row, int64_t x_column, int64_t y_row,
          int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if constexpr (V::LAYOUT == 2) {
    const int64_t first = begin * kPiece;
    const int64_t last = end * kPiece < rows * columns ? end * kPiece : rows * columns;
    copy_dense<V>(from + first, to + first, last - first);
  } else {
    for (int64_t r = begin; r < end; r++) {
      if constexpr (V::LAYOUT == 1) {
        copy_dense<V>(from + r * x_row, to + r * y_row, columns);
      } else {
        for (int64_t j = 0; j < columns; j++) to[r * y_row + j * y_column] = from[r * x_row + j * x_column];
      }
    }
  }
  if constexpr (V::STREAM) fence_streams();
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::copy;
