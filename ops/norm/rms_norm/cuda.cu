// RMS normalisation. A group of THREADS threads has a row in registers (opforge_rows.cuh); squares
// are summed in f32, one barrier a row. Few vectors a thread: the weights are fetched while the row
// is on its way.
#include "opforge_rows.cuh"

namespace opforge {

template <class V>
struct RmsStatistics {
  using Shape = RowShape<V>;
  using T = typename V::T;
  struct Partial {
    float sum;  // of (x * scale)^2
  };
  float scale;

  OPFORGE_DEVICE static Partial none() { return {0.0f}; }
  // The sum left f32's range, or what was too small for it counts.
  OPFORGE_DEVICE static bool poor(Partial all, float eps) {
    return !(all.sum < infinity()) || (all.sum < 0x1p-60f && eps < 0x1p-60f);
  }
  OPFORGE_DEVICE Partial chunk(const RowChunk<V, T>& chunk, const RowView<V, const T>&,
                               typename Shape::Index) {
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[Shape::kItems];
      chunk.vectors[i].unpack(x);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) {
        if constexpr (!is_same<T, f16>::value) x[k] *= scale;
        sums[k] = fmaf(x[k], x[k], sums[k]);
      }
    }
    return {warp_sum<Shape::kLanes>(sum_items(sums))};
  }
  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    return {warp_sum<LANES>(part.sum)};
  }
};

template <class V>
OPFORGE_DEVICE void rms_norm(const void* x, const void* w, void* y, long long rows,
                             long long columns, float eps, long long w_stride,
                             long long x_row_stride, long long x_column_stride,
                             long long y_row_stride, long long y_column_stride) {
  using Shape = RowShape<V>;
  using T = typename V::T;
  using W = typename V::W;
  using Index = typename Shape::Index;
  constexpr int kItems = Shape::kItems;
  constexpr bool kEarlyWeights = !Shape::kLoops && Shape::kVectors * kItems * sizeof(W) <= 64;

  const RowView<V, const T> in(static_cast<const T*>(x), x_row_stride, x_column_stride, rows,
                               columns);
  const RowView<V, const W> weights(static_cast<const W*>(w), 0, w_stride, rows, columns);
  const RowView<V, T> out(static_cast<T*>(y), y_row_stride, y_column_stride, rows, columns);
  RowChunk<V, T> chunk;
  Vector<W, kItems> early[kEarlyWeights ? Shape::kVectors : 1];
  if constexpr (!Shape::kLoops) chunk.load(in, 0, 0.0f);
  if constexpr (kEarlyWeights) {
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i)
      early[i] = load_items<V, Cache::kKept>(weights, Shape::column(0, i), 0.0f);
  }
  float scale;
  const auto all = scaled_statistics<V, RmsStatistics<V>>(chunk, in, eps, scale);
  const float factor =
      1.0f / sqrtf(fmaf(eps * scale, scale, all.sum / static_cast<float>(columns)));

  for (Index start = 0; start < in.length; start += Shape::kChunkColumns) {
    if constexpr (Shape::kLoops) chunk.load(in, start, 0.0f);
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      const Index column = Shape::column(start, i);
      float values[kItems], weight[kItems];
      chunk.vectors[i].unpack(values);
      if constexpr (kEarlyWeights) {
        early[i].unpack(weight);
      } else {
        load_items<V, Cache::kKept>(weights, column, 0.0f).unpack(weight);
      }
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        if constexpr (V::zero_centered) weight[k] += 1.0f;
        if constexpr (!is_same<T, f16>::value) values[k] *= scale;
        values[k] = values[k] * factor * weight[k];
      }
      store_items<V, Cache::kOnce>(out, column, values);
    }
    if constexpr (!Shape::kLoops) break;
  }
}

}  // namespace opforge
