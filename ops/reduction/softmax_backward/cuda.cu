// Gradient of softmax. A group of THREADS threads has a row of dy and one of y in registers
// (opforge_rows.cuh); products are summed in f32, one barrier a row.
#include "opforge_rows.cuh"

namespace opforge {

template <class V>
struct ProductStatistics {
  using Shape = RowShape<V>;
  struct Partial {
    float sum;
  };
  OPFORGE_DEVICE static Partial none() { return {0.0f}; }
  template <class Chunk, class Row>
  OPFORGE_DEVICE Partial chunk(const Chunk& chunk, const Row&, typename Shape::Index) {
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float a[Shape::kItems], b[Shape::kItems];
      chunk.first.unpack(i, a);
      chunk.second.unpack(i, b);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) sums[k] = fmaf(a[k], b[k], sums[k]);
    }
    return {warp_sum<Shape::kLanes>(sum_items(sums))};
  }
  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    return {warp_sum<LANES>(part.sum)};
  }
};

template <class V>
OPFORGE_DEVICE void softmax_backward(const void* dy, const void* y, void* dx, long long rows,
                                     long long columns, long long dy_row, long long dy_column,
                                     long long y_row, long long y_column, long long dx_row,
                                     long long dx_column) {
  using Shape = RowShape<V>;
  using T = typename V::T;
  using Statistics = ProductStatistics<V>;
  using Index = typename Shape::Index;
  using View = RowView<V, const T>;
  __shared__ typename Shape::Threads::template Scratch<typename Statistics::Partial> scratch;

  const RowSumView<V, T> in(View(static_cast<const T*>(dy), dy_row, dy_column, rows, columns),
                            View(static_cast<const T*>(y), y_row, y_column, rows, columns));
  const RowView<V, T> out(static_cast<T*>(dx), dx_row, dx_column, rows, columns);
  RowSumChunk<V, T> chunk;
  if constexpr (!Shape::kLoops) chunk.load(in, 0, 0.0f);
  Statistics statistics;
  const float sum =
      group_statistics<V, Statistics>(warp_statistics<V>(statistics, chunk, in, 0.0f), scratch).sum;
  for (Index start = 0; start < in.length; start += Shape::kChunkColumns) {
    if constexpr (Shape::kLoops) chunk.load(in, start, 0.0f);
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float values[Shape::kItems], weights[Shape::kItems];
      chunk.first.unpack(i, values);
      chunk.second.unpack(i, weights);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) values[k] = weights[k] * (values[k] - sum);
      store_items<V, Cache::kOnce>(out, Shape::column(start, i), values);
    }
    if constexpr (!Shape::kLoops) break;
  }
}

}  // namespace opforge
