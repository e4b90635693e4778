// Elementwise CUDA kernels: y[i] = map(x0[i], x1[i], ...) over rows x columns.
//
// V::LAYOUT 1: every tensor is contiguous and aligned to 16 bytes. A thread has V::VECTORS vectors
// of 16 bytes, V::BLOCK
//              vectors apart, and loads all of them before the first store: one vector a thread and
//              large blocks won on an H200 at large sizes, several vectors at small ones.
// V::LAYOUT 2: the same with rows anywhere: every row starts and ends at a 16-byte boundary,
// columns are next to each other. V::LAYOUT 0: any strides. One element a thread; neighbours in a
// row are neighbours in a warp. Loads are plain (not .nc), because an output may be the same memory
// as an input.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

// Strides in elements.
template <class T>
struct Strided {
  T* data;
  long long row, column;
};

// Where element `at` of the row-major order lies in a tensor.
struct Place {
  long long at, row, column;
};
template <class V>
OPFORGE_DEVICE Place place(long long at, long long rows, long long columns) {
  Place p{at, 0, 0};
  if constexpr (V::LAYOUT != 1) {
    if (rows * columns <= 0xffffffffll) {  // a division of 32 bits is several times as fast
      p.row = static_cast<unsigned>(at) / static_cast<unsigned>(columns);
    } else {
      p.row = at / columns;
    }
    p.column = at - p.row * columns;
  }
  return p;
}
template <class V, class T>
OPFORGE_DEVICE T* address(const Strided<T>& x, const Place& p) {
  if constexpr (V::LAYOUT == 1) {
    return x.data + p.at;
  } else if constexpr (V::LAYOUT == 2) {
    return x.data + p.row * x.row + p.column;
  } else {
    return x.data + p.row * x.row + p.column * x.column;
  }
}

template <class V, int kInputs, int kOutputs, class T, class Map>
OPFORGE_DEVICE void map_elements(const Strided<const T> (&x)[kInputs],
                                 const Strided<T> (&y)[kOutputs], long long rows, long long columns,
                                 long long first, int n, Map map) {
  for (int i = 0; i < n && first + i < rows * columns; ++i) {
    const Place p = place<V>(first + i, rows, columns);
    float in[kInputs], out[kOutputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) in[k] = load_float<Cache::kCached>(address<V>(x[k], p));
    map(in, out);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) store_float(address<V>(y[k], p), out[k]);
  }
}

template <class V, int kInputs, int kOutputs, class T, class Map>
OPFORGE_DEVICE void map_vectors(const Strided<const T> (&x)[kInputs],
                                const Strided<T> (&y)[kOutputs], long long rows, long long columns,
                                Map map) {
  constexpr int kItems = 16 / static_cast<int>(sizeof(T));
  constexpr int kVectors = static_cast<int>(V::VECTORS);
  const long long count = rows * columns;
  const long long first = (static_cast<long long>(blockIdx.x) * (V::BLOCK * kVectors) +
                           static_cast<long long>(threadIdx.x)) *
                          kItems;
  Vector<T, kItems> in[kVectors][kInputs];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const long long at = first + v * (V::BLOCK * kItems);
    if (at + kItems <= count) {
      const Place p = place<V>(at, rows, columns);
#pragma unroll
      for (int k = 0; k < kInputs; ++k)
        in[v][k] = load<kItems, Cache::kCached>(address<V>(x[k], p));
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const long long at = first + v * (V::BLOCK * kItems);
    if (at + kItems <= count) {
      const Place p = place<V>(at, rows, columns);
      float out[kOutputs][kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        float one[kInputs], results[kOutputs];
#pragma unroll
        for (int k = 0; k < kInputs; ++k) one[k] = to_float(in[v][k].get(i));
        map(one, results);
#pragma unroll
        for (int k = 0; k < kOutputs; ++k) out[k][i] = results[k];
      }
#pragma unroll
      for (int k = 0; k < kOutputs; ++k) {
        Vector<T, kItems> packed;
        packed.pack(out[k]);
        store(address<V>(y[k], p), packed);
      }
    } else {
      map_elements<V>(x, y, rows, columns, at, kItems, map);
    }
  }
}

// Several outputs: map(in, out).
template <class V, int kInputs, int kOutputs, class T, class Map>
OPFORGE_DEVICE void run_maps(const Strided<const T> (&x)[kInputs], const Strided<T> (&y)[kOutputs],
                             long long rows, long long columns, Map map) {
  if constexpr (V::LAYOUT != 0) {
    map_vectors<V>(x, y, rows, columns, map);
  } else {
    map_elements<V>(
        x, y, rows, columns,
        static_cast<long long>(blockIdx.x) * V::BLOCK + static_cast<long long>(threadIdx.x), 1,
        map);
  }
}
// One output, which map(in) returns.
template <class V, int kInputs, class T, class Map>
OPFORGE_DEVICE void run_map(const Strided<const T> (&x)[kInputs], const Strided<T>& y,
                            long long rows, long long columns, Map map) {
  const Strided<T> outputs[1] = {y};
  run_maps<V>(x, outputs, rows, columns,
              [=](const float(&in)[kInputs], float(&out)[1]) { out[0] = map(in); });
}

}  // namespace opforge
