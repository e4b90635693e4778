// Layer normalisation. A group of THREADS threads has a row in registers (opforge_rows.cuh). Each
// warp takes the mean of its part and the squares about that mean; parts are merged after the only
// barrier (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample
// variances, 1979), so nothing cancels where the mean is large.
#include "opforge_rows.cuh"

namespace opforge {

template <class V>
struct LayerStatistics {
  using Shape = RowShape<V>;
  using T = typename V::T;
  using Index = typename Shape::Index;
  struct Partial {
    float count, mean, squares;  // of x * scale; squares about the mean
  };
  float scale;

  OPFORGE_DEVICE static Partial none() { return {0.0f, 0.0f, 0.0f}; }
  OPFORGE_DEVICE static bool poor(Partial all, float eps) {
    return !(all.squares < infinity()) || (all.squares < 0x1p-60f && eps < 0x1p-60f);
  }
  // Columns of the row that this warp (or group, where it is smaller) holds of a chunk.
  OPFORGE_DEVICE static float held(const RowView<V, const T>& row, Index from) {
    constexpr int kWidth = Shape::kLanes * Shape::kItems;
    int count = 0;
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      const Index first = from + (i * static_cast<int>(V::THREADS) +
                                  Shape::Threads::rank() / Shape::kLanes * Shape::kLanes) *
                                     Shape::kItems;
      const Index left = row.columns - first;
      count += left <= 0 ? 0 : left < kWidth ? static_cast<int>(left) : kWidth;
    }
    return static_cast<float>(count);
  }
  OPFORGE_DEVICE Partial chunk(const RowChunk<V, T>& chunk, const RowView<V, const T>& row,
                               Index from) {
    const float count = held(row, from);
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[Shape::kItems];
      chunk.vectors[i].unpack(x);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) sums[k] = fmaf(x[k], scale, sums[k]);
    }
    const float sum = warp_sum<Shape::kLanes>(sum_items(sums));
    const float mean = count > 0.0f ? sum / count : 0.0f;
    float squares[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      const Index column = Shape::column(from, i);
      float x[Shape::kItems];
      chunk.vectors[i].unpack(x);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) {
        const bool inside = Shape::kVectorAccess ? column < row.columns : column + k < row.columns;
        const float d = inside ? fmaf(x[k], scale, -mean) : 0.0f;
        squares[k] = fmaf(d, d, squares[k]);
      }
    }
    return {count, mean, warp_sum<Shape::kLanes>(sum_items(squares))};
  }
  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    const float count = warp_sum<LANES>(part.count);
    const float origin = __shfl_sync(~0u, part.mean, 0,
                                     LANES);  // means about one of them: their sum does not cancel
    const float mean = __fadd_rn(
        origin, warp_sum<LANES>(__fmul_rn(part.count, part.mean - origin)) / fmaxf(count, 1.0f));
    const float d = part.count > 0.0f ? part.mean - mean : 0.0f;
    return {count, mean, warp_sum<LANES>(fmaf(__fmul_rn(part.count, d), d, part.squares))};
  }
};

template <class V>
OPFORGE_DEVICE void layer_norm(const void* x, const void* w, const void* b, void* y, long long rows,
                               long long columns, float eps, long long w_stride, long long b_stride,
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
  RowView<V, const W> biases(static_cast<const W*>(b), 0, b_stride, rows, columns);
  if (b == nullptr) biases.columns = 0;  // reads as zeros
  const RowView<V, T> out(static_cast<T*>(y), y_row_stride, y_column_stride, rows, columns);
  RowChunk<V, T> chunk;
  Vector<W, kItems> early_w[kEarlyWeights ? Shape::kVectors : 1],
      early_b[kEarlyWeights ? Shape::kVectors : 1];
  if constexpr (!Shape::kLoops) chunk.load(in, 0, 0.0f);
  if constexpr (kEarlyWeights) {
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      early_w[i] = load_items<V, Cache::kKept>(weights, Shape::column(0, i), 0.0f);
      early_b[i] = load_items<V, Cache::kKept>(biases, Shape::column(0, i), 0.0f);
    }
  }
  float scale;
  const auto all = scaled_statistics<V, LayerStatistics<V>>(chunk, in, eps, scale);
  const float factor =
      1.0f / sqrtf(fmaf(eps * scale, scale, all.squares / static_cast<float>(columns)));

  for (Index start = 0; start < in.length; start += Shape::kChunkColumns) {
    if constexpr (Shape::kLoops) chunk.load(in, start, 0.0f);
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      const Index column = Shape::column(start, i);
      float values[kItems], weight[kItems], bias[kItems];
      chunk.vectors[i].unpack(values);
      if constexpr (kEarlyWeights) {
        early_w[i].unpack(weight);
        early_b[i].unpack(bias);
      } else {
        load_items<V, Cache::kKept>(weights, column, 0.0f).unpack(weight);
        load_items<V, Cache::kKept>(biases, column, 0.0f).unpack(bias);
      }
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        values[k] = fmaf(fmaf(values[k], scale, -all.mean) * factor, weight[k], bias[k]);
      }
      store_items<V, Cache::kOnce>(out, column, values);
    }
    if constexpr (!Shape::kLoops) break;
  }
}

}  // namespace opforge
