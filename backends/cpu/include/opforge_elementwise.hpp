// Elementwise CPU kernels: y[i] = map(x0[i], x1[i], ...) over rows x columns with any strides.
//
// V::LAYOUT says what the guards of the variant promise; results do not depend on it:
//   2  every tensor is contiguous: work items are pieces of kPiece elements of the flat tensor
//   1  columns are next to each other, rows anywhere: work items are rows
//   0  any strides: work items are rows
// V::STREAM: non-temporal stores where the output allows; V::PREFETCH: bytes read ahead.
#pragma once

#include "opforge_cpu.hpp"

namespace opforge {
namespace cpu {

inline constexpr int64_t kPiece = 4096;  // elements; a multiple of 64 bytes for every type

// Strides in elements.
template <class T>
struct Strided {
  T* data;
  int64_t row, column;
};

template <class V, bool kStream, int kInputs, class T, class Map>
OPFORGE_INLINE void map_span(const T* const (&x)[kInputs], T* y, int64_t n, Map map) {
  Pair in[kInputs];
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    for (int k = 0; k < kInputs; k++) {
      prefetch<T, static_cast<int>(V::PREFETCH)>(x[k] + i);
      in[k] = load(x[k] + i);
    }
    store<kStream>(y + i, map(in));
  }
  if (i < n) {
    for (int k = 0; k < kInputs; k++) in[k] = load_n(x[k] + i, n - i);
    store_n(y + i, map(in), n - i);
  }
}

template <class V, int kInputs, class T, class Map>
OPFORGE_INLINE void map_dense(const T* const (&x)[kInputs], T* y, int64_t n, Map map) {
  if (V::STREAM && can_stream(y)) {
    map_span<V, true>(x, y, n, map);
  } else {
    map_span<V, false>(x, y, n, map);
  }
}

template <int kInputs, class T, class Map>
OPFORGE_INLINE void map_strided(const T* const (&x)[kInputs], const int64_t (&steps)[kInputs], T* y,
                                int64_t step, int64_t n, Map map) {
  alignas(64) T buffer[kPair];
  for (int64_t i = 0; i < n; i += kPair) {
    const int64_t count = n - i < kPair ? n - i : kPair;
    Pair in[kInputs];
    for (int k = 0; k < kInputs; k++) {
      for (int64_t j = 0; j < count; j++) buffer[j] = x[k][(i + j) * steps[k]];
      in[k] = load_n(buffer, count);
    }
    store(buffer, map(in));
    for (int64_t j = 0; j < count; j++) y[(i + j) * step] = buffer[j];
  }
}

template <class V, int kInputs, class T, class Map>
OPFORGE_INLINE void run_map(const Strided<const T> (&x)[kInputs], const Strided<T>& y, int64_t rows,
                            int64_t columns, int64_t begin, int64_t end, Map map) {
  if constexpr (V::LAYOUT == 2) {
    const int64_t from = begin * kPiece;
    const int64_t to = end * kPiece < rows * columns ? end * kPiece : rows * columns;
    const T* at[kInputs];
    for (int k = 0; k < kInputs; k++) at[k] = x[k].data + from;
    map_dense<V>(at, y.data + from, to - from, map);
  } else {
    for (int64_t r = begin; r < end; r++) {
      const T* at[kInputs];
      int64_t steps[kInputs];
      for (int k = 0; k < kInputs; k++) {
        at[k] = x[k].data + r * x[k].row;
        steps[k] = x[k].column;
      }
      T* to = y.data + r * y.row;
      if constexpr (V::LAYOUT == 1) {
        map_dense<V>(at, to, columns, map);
      } else {
        map_strided(at, steps, to, y.column, columns, map);
      }
    }
  }
  if constexpr (V::STREAM) fence_streams();
}

}  // namespace cpu
}  // namespace opforge
