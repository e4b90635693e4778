// Elementwise CUDA kernels: y[i] = map(x0[i], x1[i], ...) over rows x columns.
//
// V::LAYOUT 1: every tensor is contiguous and aligned to 16 bytes. A thread has V::VECTORS vectors of 16 bytes, V::BLOCK
//              vectors apart, and loads all of them before the first store: one vector a thread and large blocks won on an
//              H200 at large sizes, several vectors at small ones.
// V::LAYOUT 0: any strides. One element a thread; neighbours in a row are neighbours in a warp.
// Loads are plain (not .nc), because an output may be the same memory as an input.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

// Strides in elements.
template <class T>
struct Strided {
  T* data;
  long long row, column;
};

template <class V, int kInputs, class T, class Map>
OPFORGE_DEVICE void map_elements(const Strided<const T> (&x)[kInputs], const Strided<T>& y, long long count,
                                 long long first, int n, Map map) {
  for (int i = 0; i < n && first + i < count; ++i) {
    float in[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) in[k] = load_float<Cache::kCached>(x[k].data + first + i);
    store_float(y.data + first + i, map(in));
  }
}

template <class V, int kInputs, class T, class Map>
OPFORGE_DEVICE void run_map_flat(const Strided<const T> (&x)[kInputs], const Strided<T>& y, long long count, Map map) {
  constexpr int kItems = 16 / static_cast<int>(sizeof(T));
  constexpr int kVectors = static_cast<int>(V::VECTORS);
  const long long first =
      (static_cast<long long>(blockIdx.x) * (V::BLOCK * kVectors) + static_cast<long long>(threadIdx.x)) * kItems;
  Vector<T, kItems> in[kVectors][kInputs];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const long long at = first + v * (V::BLOCK * kItems);
    if (at + kItems <= count) {
#pragma unroll
      for (int k = 0; k < kInputs; ++k) in[v][k] = load<kItems, Cache::kCached>(x[k].data + at);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const long long at = first + v * (V::BLOCK * kItems);
    if (at + kItems <= count) {
      float out[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        float one[kInputs];
#pragma unroll
        for (int k = 0; k < kInputs; ++k) one[k] = to_float(in[v][k].get(i));
        out[i] = map(one);
      }
      Vector<T, kItems> packed;
      packed.pack(out);
      store(y.data + at, packed);
    } else {
      map_elements<V>(x, y, count, at, kItems, map);
    }
  }
}

template <class V, int kInputs, class T, class Map>
OPFORGE_DEVICE void run_map(const Strided<const T> (&x)[kInputs], const Strided<T>& y, long long rows,
                            long long columns, Map map) {
  const long long count = rows * columns;
  if constexpr (V::LAYOUT == 1) {
    run_map_flat<V>(x, y, count, map);
  } else {
    const long long at = static_cast<long long>(blockIdx.x) * V::BLOCK + static_cast<long long>(threadIdx.x);
    if (at >= count) return;
    const long long row = at / columns, column = at - row * columns;
    float in[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      in[k] = load_float<Cache::kCached>(x[k].data + row * x[k].row + column * x[k].column);
    }
    store_float(y.data + row * y.row + column * y.column, map(in));
  }
}

}  // namespace opforge
