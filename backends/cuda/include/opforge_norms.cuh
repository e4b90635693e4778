// Rows of the norms, over a plain row or over the sum of two rows (a residual that is updated in
// place). A group of THREADS threads has a row in registers (opforge_rows.cuh), one barrier a row.
// Few vectors a thread: the weights are fetched while the row is on its way.
//
// Sums of two rows are taken in f32 whenever they are needed: what is normalised is not rounded to
// T.
#pragma once

#include "opforge_rows.cuh"

namespace opforge {

// Where the sum goes: nowhere, or into the row that it was made with.
struct NoResidual {
  template <class V>
  OPFORGE_DEVICE void update(typename RowShape<V>::Index,
                             const float (&)[RowShape<V>::kItems]) const {}
};
template <class Variant>
struct RowResidual {
  RowView<Variant, typename Variant::T> row;
  template <class V>
  OPFORGE_DEVICE void update(typename RowShape<V>::Index column,
                             const float (&sum)[RowShape<V>::kItems]) const {
    store_items<V, Cache::kOnce>(row, column, sum);
  }
};

// RMS normalisation: squares are summed in f32.
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
  template <class Chunk, class Row>
  OPFORGE_DEVICE Partial chunk(const Chunk& chunk, const Row&, typename Shape::Index) {
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[Shape::kItems];
      chunk.unpack(i, x);
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

template <class V, bool kZeroCentered, class Chunk, class Row, class Residual>
OPFORGE_DEVICE void normalise_rms(const Row& in, const RowView<V, const typename V::W>& weights,
                                  const RowView<V, typename V::T>& out, const Residual& residual,
                                  long long columns, float eps) {
  using T = typename V::T;
  using Shape = RowShape<V>;
  using W = typename V::W;
  using Index = typename Shape::Index;
  constexpr int kItems = Shape::kItems;
  constexpr bool kEarlyWeights = !Shape::kLoops && Shape::kVectors * kItems * sizeof(W) <= 64;

  Chunk chunk;
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
      chunk.unpack(i, values);
      residual.template update<V>(column, values);
      if constexpr (kEarlyWeights) {
        early[i].unpack(weight);
      } else {
        load_items<V, Cache::kKept>(weights, column, 0.0f).unpack(weight);
      }
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        if constexpr (kZeroCentered) weight[k] += 1.0f;
        if constexpr (!is_same<T, f16>::value) values[k] *= scale;
        values[k] = values[k] * factor * weight[k];
      }
      store_items<V, Cache::kOnce>(out, column, values);
    }
    if constexpr (!Shape::kLoops) break;
  }
}

// Layer normalisation. Each warp takes the mean of its part and the squares about that mean; parts
// are merged after the only barrier (Chan, Golub, LeVeque: Updating formulae and a pairwise
// algorithm for computing sample variances, 1979), so nothing cancels where the mean is large.
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
  template <class Row>
  OPFORGE_DEVICE static float held(const Row& row, Index from) {
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
  template <class Chunk, class Row>
  OPFORGE_DEVICE Partial chunk(const Chunk& chunk, const Row& row, Index from) {
    const float count = held(row, from);
    float sums[Shape::kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[Shape::kItems];
      chunk.unpack(i, x);
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
      chunk.unpack(i, x);
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

template <class V, class Chunk, class Row, class Residual>
OPFORGE_DEVICE void normalise_layer(const Row& in, const RowView<V, const typename V::W>& weights,
                                    const RowView<V, const typename V::W>& biases,
                                    const RowView<V, typename V::T>& out, const Residual& residual,
                                    long long columns, float eps) {
  using Shape = RowShape<V>;
  using W = typename V::W;
  using Index = typename Shape::Index;
  constexpr int kItems = Shape::kItems;
  constexpr bool kEarlyWeights = !Shape::kLoops && Shape::kVectors * kItems * sizeof(W) <= 64;

  Chunk chunk;
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
      chunk.unpack(i, values);
      residual.template update<V>(column, values);
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
