// Softmax over the last dim. A group of THREADS threads has a row in registers (opforge_rows.cuh),
// one vector of 16 bytes after the other, and several blocks an SM overlap one row's reduction with
// another's loads.
//
// Each warp takes the maximum m_w of its own part and the sum s_w of exp(x - m_w); the warps' pairs
// are combined after the only barrier, and what was computed as exp(x - m_w) is scaled by exp(m_w -
// m) / sum: one exponential an element. Rows that do not fit into registers are read twice: once
// for the pairs of chunks, once to write.
#include "opforge_rows.cuh"

namespace opforge {

template <class V>
struct SoftmaxStatistics {
  using Shape = RowShape<V>;
  using T = typename V::T;
  static constexpr int kItems = Shape::kItems;
  // Exponentials stay in registers where they fit: 40 always, 64 where a block leaves 128 registers
  // a thread.
  static constexpr int kHeld = Shape::kVectors * kItems;
  static constexpr bool kKeep = !Shape::kLoops && (kHeld <= 40 || (kHeld <= 64 && V::BLOCK <= 512));

  struct Partial {
    float max, sum;  // sum of exp(x - max)
  };
  float kept[kKeep ? kHeld : 1];

  OPFORGE_DEVICE static Partial none() { return {-infinity(), 0.0f}; }
  // What is subtracted before exp: the maximum, but 0 where there is nothing above -inf (-inf -
  // -inf would be NaN).
  OPFORGE_DEVICE static float base(float max) { return max == -infinity() ? 0.0f : max; }
  OPFORGE_DEVICE static float exponential(float x, float base) {
    return exp2_for<T>((x - base) * kLog2e);
  }

  OPFORGE_DEVICE static float thread_max(const RowChunk<V, T>& chunk) {
    using Vector = decltype(chunk.vectors[0]);
    if constexpr (sizeof(T) == 4) {
      float max = -infinity();
#pragma unroll
      for (int i = 0; i < Shape::kVectors; ++i) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) max = nan_max(max, chunk.vectors[i].get(k));
      }
      return max;
    } else {
      unsigned word = chunk.vectors[0].words[0];
#pragma unroll
      for (int i = 0; i < Shape::kVectors; ++i) {
#pragma unroll
        for (int k = 0; k < kItems / 2; ++k) word = packed_max<T>(word, chunk.vectors[i].words[k]);
      }
      T low, high;
      low.bits = static_cast<unsigned short>(word);
      high.bits = static_cast<unsigned short>(word >> 16);
      return nan_max(to_float(low), to_float(high));
    }
  }

  OPFORGE_DEVICE Partial chunk(const RowChunk<V, T>& chunk, const RowView<V, const T>&,
                               typename Shape::Index) {
    const float max = warp_max<Shape::kLanes>(thread_max(chunk));
    const float from = base(max);
    float sums[kItems] = {};
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float x[kItems];
      chunk.vectors[i].unpack(x);
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        const float e = exponential(x[k], from);
        sums[k] += e;
        if constexpr (kKeep) kept[i * kItems + k] = e;
      }
    }
    return {max, warp_sum<Shape::kLanes>(sum_items(sums))};
  }

  template <int LANES>
  OPFORGE_DEVICE static Partial combine(Partial part) {
    const float max = warp_max<LANES>(part.max);
    // __fmul_rn: contracted with the first addition of the sum, lanes would round differently.
    return {max, warp_sum<LANES>(__fmul_rn(part.sum, exponential(base(part.max), base(max))))};
  }
};

template <class V>
OPFORGE_DEVICE void softmax(const void* x, void* y, long long rows, long long columns,
                            long long x_row_stride, long long x_column_stride,
                            long long y_row_stride, long long y_column_stride) {
  using Shape = RowShape<V>;
  using T = typename V::T;
  using Statistics = SoftmaxStatistics<V>;
  using Index = typename Shape::Index;
  __shared__ typename Shape::Threads::template Scratch<typename Statistics::Partial> scratch;

  const RowView<V, const T> in(static_cast<const T*>(x), x_row_stride, x_column_stride, rows,
                               columns);
  const RowView<V, T> out(static_cast<T*>(y), y_row_stride, y_column_stride, rows, columns);
  RowChunk<V, T> chunk;
  if constexpr (!Shape::kLoops) chunk.load(in, 0, -infinity());
  Statistics statistics;
  const typename Statistics::Partial own = warp_statistics<V>(statistics, chunk, in, -infinity());
  const typename Statistics::Partial all = group_statistics<V, Statistics>(own, scratch);

  // A row without any value above -inf is 0 / 0 = NaN, as in exact arithmetic.
  const float from = Statistics::base(own.max);
  const float scale = Statistics::exponential(from, Statistics::base(all.max)) / all.sum;
  for (Index start = 0; start < in.length; start += Shape::kChunkColumns) {
    if constexpr (Shape::kLoops) chunk.load(in, start, 0.0f);
#pragma unroll
    for (int i = 0; i < Shape::kVectors; ++i) {
      float values[Shape::kItems];
      chunk.vectors[i].unpack(values);
#pragma unroll
      for (int k = 0; k < Shape::kItems; ++k) {
        if constexpr (Statistics::kKeep) {
          values[k] = statistics.kept[i * Shape::kItems + k] * scale;
        } else {
          values[k] = Statistics::exponential(values[k], from) * scale;
        }
      }
      store_items<V, Cache::kOnce>(out, Shape::column(start, i), values);
    }
    if constexpr (!Shape::kLoops) break;
  }
}

}  // namespace opforge
