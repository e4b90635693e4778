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

// A map of several outputs: map(in, out).
template <class V, bool kStream, int kInputs, int kOutputs, class T, class Map>
OPFORGE_INLINE void map_span(const T* const (&x)[kInputs], T* const (&y)[kOutputs], int64_t n,
                             Map map) {
  Pair in[kInputs], out[kOutputs];
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    for (int k = 0; k < kInputs; k++) {
      prefetch<T, static_cast<int>(V::PREFETCH)>(x[k] + i);
      in[k] = load(x[k] + i);
    }
    map(in, out);
    for (int k = 0; k < kOutputs; k++) store<kStream>(y[k] + i, out[k]);
  }
  if (i < n) {
    for (int k = 0; k < kInputs; k++) in[k] = load_n(x[k] + i, n - i);
    map(in, out);
    for (int k = 0; k < kOutputs; k++) store_n(y[k] + i, out[k], n - i);
  }
}

template <class V, int kInputs, int kOutputs, class T, class Map>
OPFORGE_INLINE void map_dense(const T* const (&x)[kInputs], T* const (&y)[kOutputs], int64_t n,
                              Map map) {
  bool stream = V::STREAM;
  for (int k = 0; k < kOutputs; k++) stream = stream && can_stream(y[k]);
  if (V::STREAM && stream) {
    map_span<V, true>(x, y, n, map);
  } else {
    map_span<V, false>(x, y, n, map);
  }
}

template <int kInputs, int kOutputs, class T, class Map>
OPFORGE_INLINE void map_strided(const T* const (&x)[kInputs], const int64_t (&steps)[kInputs],
                                T* const (&y)[kOutputs], const int64_t (&out_steps)[kOutputs],
                                int64_t n, Map map) {
  alignas(64) T buffer[kPair];
  for (int64_t i = 0; i < n; i += kPair) {
    const int64_t count = n - i < kPair ? n - i : kPair;
    Pair in[kInputs], out[kOutputs];
    for (int k = 0; k < kInputs; k++) {
      for (int64_t j = 0; j < count; j++) buffer[j] = x[k][(i + j) * steps[k]];
      in[k] = load_n(buffer, count);
    }
    map(in, out);
    for (int k = 0; k < kOutputs; k++) {
      store(buffer, out[k]);
      for (int64_t j = 0; j < count; j++) y[k][(i + j) * out_steps[k]] = buffer[j];
    }
  }
}

template <class V, int kInputs, int kOutputs, class T, class Map>
OPFORGE_INLINE void run_maps(const Strided<const T> (&x)[kInputs], const Strided<T> (&y)[kOutputs],
                             int64_t rows, int64_t columns, int64_t begin, int64_t end, Map map) {
  const T* from[kInputs];
  T* out[kOutputs];
  if constexpr (V::LAYOUT == 2) {
    const int64_t at = begin * kPiece;
    const int64_t to = end * kPiece < rows * columns ? end * kPiece : rows * columns;
    for (int k = 0; k < kInputs; k++) from[k] = x[k].data + at;
    for (int k = 0; k < kOutputs; k++) out[k] = y[k].data + at;
    map_dense<V>(from, out, to - at, map);
  } else {
    int64_t steps[kInputs], out_steps[kOutputs];
    for (int k = 0; k < kInputs; k++) steps[k] = x[k].column;
    for (int k = 0; k < kOutputs; k++) out_steps[k] = y[k].column;
    for (int64_t r = begin; r < end; r++) {
      for (int k = 0; k < kInputs; k++) from[k] = x[k].data + r * x[k].row;
      for (int k = 0; k < kOutputs; k++) out[k] = y[k].data + r * y[k].row;
      if constexpr (V::LAYOUT == 1) {
        map_dense<V>(from, out, columns, map);
      } else {
        map_strided(from, steps, out, out_steps, columns, map);
      }
    }
  }
  if constexpr (V::STREAM) fence_streams();
}

// One output, which map(in) returns.
template <class V, int kInputs, class T, class Map>
OPFORGE_INLINE void run_map(const Strided<const T> (&x)[kInputs], const Strided<T>& y, int64_t rows,
                            int64_t columns, int64_t begin, int64_t end, Map map) {
  const Strided<T> outputs[1] = {y};
  run_maps<V>(x, outputs, rows, columns, begin, end,
              [=](const Pair(&in)[kInputs], Pair(&out)[1]) { out[0] = map(in); });
}

}  // namespace cpu
}  // namespace opforge
