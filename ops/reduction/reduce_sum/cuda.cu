// Sum over the last dim. A group of THREADS threads reads a row, 16 bytes a thread at once
// (opforge_rows.cuh); partial sums are f32 throughout and rounded once.
#include "opforge_rows.cuh"

namespace opforge {

template <class V>
struct SumStatistics {
  using Shape = RowShape<V>;
  using T = typename V::T;
  struct Partial {
    float sum;  // of x * scale
  };
  float scale;

  OPFORGE_DEVICE static Partial none() { return {0.0f}; }
  // A partial sum may leave f32's range although the whole does not.
  OPFORGE_DEVICE static bool poor(Partial all, float) { return !(fabsf(all.sum) < infinity()); }
  OPFORGE_DEVICE Partial chunk(const RowChunk<V, T>& chunk, const RowView<V, const T>&,
                               typename Shape::Index) {
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[Shape::kItems];
      chunk.vectors[i].unpack(x);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) sums[k] = fmaf(x[k], scale, sums[k]);
    }
    return {warp_sum<Shape::kLanes>(sum_items(sums))};
  }
  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    return {warp_sum<LANES>(part.sum)};
  }
};

template <class V>
OPFORGE_DEVICE void reduce_sum(const void* x, void* y, long long rows, long long columns,
                               long long x_row_stride, long long x_column_stride,
                               long long y_stride) {
  using Shape = RowShape<V>;
  using T = typename V::T;
  const RowView<V, const T> in(static_cast<const T*>(x), x_row_stride, x_column_stride, rows,
                               columns);
  RowChunk<V, T> chunk;
  if constexpr (!Shape::kLoops) chunk.load(in, 0, 0.0f);
  float scale;
  const float sum = scaled_statistics<V, SumStatistics<V>>(chunk, in, 0.0f, scale).sum;
  if (Shape::Threads::rank() == 0 && Shape::row() < rows) {
    store_float<Cache::kCached>(static_cast<T*>(y) + Shape::row() * y_stride, sum / scale);
  }
}

}  // namespace opforge
