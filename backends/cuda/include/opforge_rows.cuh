// Row kernels in CUDA C++: a group of THREADS threads owns a row and keeps its part in registers.
//
// A row is cut into vectors of 16 bytes of T (kItems elements). Vector j belongs to thread j %
// THREADS of the group, so that neighbouring threads read neighbouring addresses. What a thread
// holds at once is a chunk: kVectors vectors.
//   resident (VECS > 0)  the whole row is one chunk; x is read once
//   looping  (VECS == 0) any number of columns: chunks of kChunk vectors one after the other; x is
//   read again to write
// Which thread adds what, and in which order, depends on THREADS and the element type alone:
// resident and looping code, and both layouts, give the same bits for the same row.
//
// A variant V has: T, THREADS (of a row), BLOCK (threads of a block: BLOCK / THREADS rows), VECS,
// and LAYOUT:
//   1  columns are contiguous and every row starts at a 16-byte boundary and ends at one: vector
//   access 0  any row and column strides (also zero and negative): one element at a time, the same
//   assignment to threads
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

template <bool kFirst, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

inline constexpr int kChunk = 8;  // vectors a thread of a chunk: 128 bytes in flight

template <class V>
struct RowShape {
  using T = typename V::T;
  using Threads = Group<V::BLOCK, V::THREADS>;
  static constexpr int kItems = 16 / static_cast<int>(sizeof(T));
  static constexpr bool kLoops = V::VECS == 0;
  static constexpr int kVectors = kLoops ? kChunk : static_cast<int>(V::VECS);
  static constexpr bool kVectorAccess = V::LAYOUT == 1;
  static constexpr int kLanes = Threads::kLanes;
  static constexpr int kWarps = Threads::kWarps;
  static_assert(kVectors <= kChunk, "a resident row is one chunk");
  using Index = typename Choose<kLoops, long long, int>::type;  // of a column
  static constexpr Index kChunkColumns = static_cast<int>(V::THREADS) * kVectors * kItems;

  OPFORGE_DEVICE static long long row() {
    return static_cast<long long>(blockIdx.x) * Threads::kGroups + Threads::index();
  }
  // First column of this thread's vector i of the chunk that starts at column `from`.
  OPFORGE_DEVICE static Index column(Index from, int i) {
    return from + static_cast<Index>((i * static_cast<int>(V::THREADS) + Threads::rank()) * kItems);
  }
};

// One row of a matrix with any strides (elements). Groups past the last row have a row of `length`
// columns of which none
// (`columns`) may be touched, so that all threads of a block take the same path.
template <class V, class T>
struct RowView {
  using Index = typename RowShape<V>::Index;
  T* data;
  long long step;
  Index columns, length;

  OPFORGE_DEVICE RowView(T* first, long long row_stride, long long column_stride, long long rows,
                         long long n) {
    const long long row = RowShape<V>::row();
    data = first + (row < rows ? row * row_stride : 0);
    step = column_stride;
    length = static_cast<Index>(n);
    columns = row < rows ? length : 0;
  }
};

// kItems elements from `column` on; those past the end are `fill`.
template <class V, Cache kCache, class T>
OPFORGE_DEVICE Vector<T, RowShape<V>::kItems> load_items(const RowView<V, const T>& row,
                                                         typename RowShape<V>::Index column,
                                                         float fill) {
  constexpr int kItems = RowShape<V>::kItems;
  Vector<T, kItems> v;
  if constexpr (RowShape<V>::kVectorAccess) {
    if (column < row.columns) {
      v = load<kItems, kCache>(row.data + column);
    } else {
      v.fill(fill);
    }
  } else {
    float values[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      values[k] = column + k < row.columns
                      ? load_float<Cache::kCached>(row.data + (column + k) * row.step)
                      : fill;
    }
    v.pack(values);
  }
  return v;
}
template <class V, Cache kCache, class T>
OPFORGE_DEVICE void store_items(const RowView<V, T>& row, typename RowShape<V>::Index column,
                                const float (&values)[RowShape<V>::kItems]) {
  constexpr int kItems = RowShape<V>::kItems;
  if constexpr (RowShape<V>::kVectorAccess) {
    if (column < row.columns) {
      Vector<T, kItems> v;
      v.pack(values);
      store<kCache>(row.data + column, v);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      if (column + k < row.columns)
        store_float<Cache::kCached>(row.data + (column + k) * row.step, values[k]);
    }
  }
}

// This thread's vectors of one chunk.
template <class V, class T>
struct RowChunk {
  Vector<T, RowShape<V>::kItems> vectors[RowShape<V>::kVectors];

  OPFORGE_DEVICE void load(const RowView<V, const T>& row, typename RowShape<V>::Index from,
                           float fill) {
#pragma unroll
    for (int i = 0; i < RowShape<V>::kVectors; ++i) {
      vectors[i] = load_items<V, Cache::kOnce>(row, RowShape<V>::column(from, i), fill);
    }
  }
  OPFORGE_DEVICE void unpack(int i, float (&out)[RowShape<V>::kItems]) const {
    vectors[i].unpack(out);
  }
};

// The sum of two rows, in f32: what a RowView and a RowChunk are to one row.
template <class V, class T>
struct RowSumView {
  using Index = typename RowShape<V>::Index;
  RowView<V, const T> first, second;
  Index columns, length;
  OPFORGE_DEVICE RowSumView(const RowView<V, const T>& a, const RowView<V, const T>& b)
      : first(a), second(b), columns(a.columns), length(a.length) {}
};
template <class V, class T>
struct RowSumChunk {
  RowChunk<V, T> first, second;

  OPFORGE_DEVICE void load(const RowSumView<V, T>& row, typename RowShape<V>::Index from,
                           float fill) {
    first.load(row.first, from, fill);
    second.load(row.second, from, 0.0f);
  }
  OPFORGE_DEVICE void unpack(int i, float (&out)[RowShape<V>::kItems]) const {
    float other[RowShape<V>::kItems];
    first.unpack(i, out);
    second.unpack(i, other);
#pragma unroll
    for (int k = 0; k < RowShape<V>::kItems; ++k) out[k] += other[k];
  }
};

// A thread's kItems accumulators, pairwise.
template <int N>
OPFORGE_DEVICE float sum_items(float (&items)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) items[k] += items[k + half];
  }
  return items[0];
}

// Statistics of a row. A `Statistics` has
//   Partial            a value of 4-byte words, the same in all lanes of a warp (or of the group,
//   where it is smaller) none()             the Partial of no elements chunk(chunk, row, from)  the
//   Partial of what the group's threads in this warp hold of the chunk that starts at `from`
//   combine<LANES>(Partial)  of LANES lanes, each with its own; all lanes get the result
// Partials of chunks are parked one in a lane and combined 32 at a time, so that rounding grows
// with the logarithm of the length, not with the length.
// Chunk and Row: RowChunk and RowView, or RowSumChunk and RowSumView.
template <class V, class Statistics, class Chunk, class Row>
OPFORGE_DEVICE typename Statistics::Partial warp_statistics(Statistics& statistics, Chunk& chunk,
                                                            const Row& row, float fill) {
  using Shape = RowShape<V>;
  if constexpr (!Shape::kLoops) {
    return statistics.chunk(chunk, row, 0);
  } else {
    constexpr int kLanes = Shape::kLanes;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    typename Statistics::Partial parked = Statistics::none();
    int used = 0;
    for (long long from = 0; from < row.length; from += Shape::kChunkColumns) {
      chunk.load(row, from, fill);
      const typename Statistics::Partial one = statistics.chunk(chunk, row, from);
      if (lane == used) parked = one;
      if (++used == kLanes) {
        const typename Statistics::Partial all = Statistics::template combine<kLanes>(parked);
        parked = lane == 0 ? all : Statistics::none();
        used = 1;
      }
    }
    return Statistics::template combine<kLanes>(parked);
  }
}
// Combine the warps of a group. `scratch` is used once.
template <class V, class Statistics>
OPFORGE_DEVICE typename Statistics::Partial group_statistics(
    typename Statistics::Partial value,
    typename RowShape<V>::Threads::template Scratch<typename Statistics::Partial>& scratch) {
  using Shape = RowShape<V>;
  if constexpr (Shape::kWarps > 1) {
    const int group = Shape::Threads::index();
    if (threadIdx.x % 32 == 0) scratch.partial[group][Shape::Threads::rank() / 32] = value;
    Shape::Threads::sync();
    value = Statistics::template combine<Shape::kWarps>(
        scratch.partial[group][threadIdx.x % Shape::kWarps]);
  }
  return value;
}

// Statistics of a row and then of the whole group. For data with f32's range squares and sums may
// leave the range although the result does not: then once more with x * 2^-k, k from the largest
// magnitude and `floor`. `scale` is what x was multiplied with. Group-uniform, and all groups of a
// warp go through both rounds together; those that had no need keep scale 1 and get the same bits
// again.
template <class V>
struct RowMaxAbs {
  struct Partial {
    float max;
  };
  OPFORGE_DEVICE static Partial none() { return {0.0f}; }
  template <class Chunk, class Row>
  OPFORGE_DEVICE static Partial chunk(const Chunk& chunk, const Row&, typename RowShape<V>::Index) {
    float max = 0.0f;
#pragma unroll
    for (int i = 0; i < RowShape<V>::kVectors; ++i) {
      float x[RowShape<V>::kItems];
      chunk.unpack(i, x);
#pragma unroll
      for (int k = 0; k < RowShape<V>::kItems; ++k) max = nan_max(max, fabsf(x[k]));
    }
    return {warp_max<RowShape<V>::kLanes>(max)};
  }
  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    return {warp_max<LANES>(part.max)};
  }
};

// 2^-e for a finite value of magnitude 2^e; 1 for infinity and NaN, whose results need no help.
OPFORGE_DEVICE float inverse_power(float magnitude) {
  const unsigned e = __float_as_uint(magnitude) >> 23 & 255;
  if (e == 255) return 1.0f;
  return __uint_as_float((e < 1 ? 253u : e > 253 ? 1u : 254u - e) << 23);
}

template <class V, class Statistics, class Chunk, class Row>
OPFORGE_DEVICE typename Statistics::Partial scaled_statistics(Chunk& chunk, const Row& row,
                                                              float floor, float& scale) {
  using Shape = RowShape<V>;
  using Partial = typename Statistics::Partial;
  __shared__ typename Shape::Threads::template Scratch<Partial> scratch[2];
  __shared__ typename Shape::Threads::template Scratch<typename RowMaxAbs<V>::Partial> max_scratch;
  Statistics statistics;
  statistics.scale = scale = 1.0f;
  Partial all =
      group_statistics<V, Statistics>(warp_statistics<V>(statistics, chunk, row, 0.0f), scratch[0]);
  if constexpr (!is_same<typename V::T, f16>::value) {
    const bool poor = Statistics::poor(all, floor);
    if (Shape::kLanes < 32 ? __any_sync(~0u, poor) : poor) {
      RowMaxAbs<V> largest;
      const auto max = group_statistics<V, RowMaxAbs<V>>(
          warp_statistics<V>(largest, chunk, row, 0.0f), max_scratch);
      statistics.scale = scale = poor ? inverse_power(fmaxf(max.max, sqrtf(floor))) : 1.0f;
      all = group_statistics<V, Statistics>(warp_statistics<V>(statistics, chunk, row, 0.0f),
                                            scratch[1]);
    }
  }
  return all;
}

}  // namespace opforge
