// Gradients of the norms on the CPU, in three steps (rows, partials, sums). V::LAYER: layer
// normalisation, else RMS.
//
// With the row's numbers, z = (x scale - mean) factor is what was multiplied with the weight, and
// dx = scale factor (g - mean g - z mean(g z)), g = dy (w + shift); RMS has no mean g.
#pragma once

#include "opforge_norms.hpp"

namespace opforge {
namespace cpu {

struct RowNumbers {
  float scale, mean, factor;
};

template <class V, int kLayout>
struct BackwardVariant {
  using T = typename V::T;
  using W = typename V::W;
  static constexpr int LAYOUT = kLayout, PREFETCH = 0, STREAM = 0, PIPELINE = 0;
};

template <class S, bool kLayer>
struct BackwardRows {
  using T = typename S::T;
  using W = typename S::W;
  static constexpr bool kContiguous = S::LAYOUT == 1;
  const T *dy, *x, *added;
  const W* w;
  T* dx;
  int64_t columns, w_stride, dy_column, x_column, added_column, dx_column;
  float eps, shift;

  OPFORGE_INLINE_MEMBER RowNumbers numbers() const {
    const NormSources<S, false> source{x, 0, x_column, nullptr, 0, 0};
    if constexpr (kLayer) {
      LayerRows<S, false> rows;
      read(rows, source);
      return {rows.scale, rows.mean, rows.factor};
    } else {
      RmsRows<S, false, false> rows;
      read(rows, source);
      return {rows.scale, 0.0f, rows.factor};
    }
  }
  template <class Rows>
  OPFORGE_INLINE_MEMBER void read(Rows& rows, const NormSources<S, false>& source) const {
    rows.sources = source;
    rows.eps = eps;
    rows.columns = columns;
    typename Rows::Reader reader = rows.reader(0);
    const typename Rows::Writer none{};
    row_pass<S, true, false>(reader, none, columns);
    rows.finish(reader);
  }

  struct Elements {
    Step g, z;
  };
  template <bool kFull>
  OPFORGE_INLINE_MEMBER Elements load(int64_t column, const RowNumbers& n) const {
    const Step d = load_step<T, kContiguous, kFull>(dy, dy_column, column, columns);
    const Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
    const Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
    const Pair more = both(shift), minus = both(-n.mean), scale = both(n.scale), f = both(n.factor);
    return {{mul(d.low, add(weight.low, more)), mul(d.high, add(weight.high, more))},
            {mul(fma(v.low, scale, minus), f), mul(fma(v.high, scale, minus), f)}};
  }
  // What is past the end of the row is dy = 0, so g = 0; z may be anything finite there.
  OPFORGE_INLINE_MEMBER void run(const RowNumbers& n) const {
    double g_sum = 0, product_sum = 0;
    for (int64_t from = 0; from < columns; from += kChunk) {
      const int64_t to = lesser(from + kChunk, columns), full = from + (to - from) / kStep * kStep;
      Pair g = both(0.0f), products = both(0.0f);
      for (int64_t i = from; i < full; i += kStep) count(load<true>(i, n), g, products);
      if (full < to) count(load<false>(full, n), g, products);
      g_sum += static_cast<double>(lane_sum(g));
      product_sum += static_cast<double>(lane_sum(products));
    }
    const double size = static_cast<double>(columns);
    const Pair g_mean = both(kLayer ? static_cast<float>(g_sum / size) : 0.0f);
    const Pair product_mean = both(static_cast<float>(product_sum / size));
    const int64_t full = columns / kStep * kStep;
    for (int64_t i = 0; i < full; i += kStep) write<true>(i, n, g_mean, product_mean);
    if (full < columns) write<false>(full, n, g_mean, product_mean);
  }
  OPFORGE_INLINE_MEMBER static void count(const Elements& e, Pair& g, Pair& products) {
    g = add(g, add(e.g.low, e.g.high));
    products = fma(e.g.high, e.z.high, fma(e.g.low, e.z.low, products));
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void write(int64_t column, const RowNumbers& n, Pair g_mean,
                                   Pair product_mean) const {
    const Elements e = load<kFull>(column, n);
    Step v = {gradient(e.g.low, e.z.low, n, g_mean, product_mean),
              gradient(e.g.high, e.z.high, n, g_mean, product_mean)};
    if (added != nullptr) {
      const Step more = load_step<T, kContiguous, kFull>(added, added_column, column, columns);
      v = {add(v.low, more.low), add(v.high, more.high)};
    }
    store_step<kContiguous, kFull, false>(dx, dx_column, column, columns, v);
  }
  OPFORGE_INLINE_MEMBER static Pair gradient(Pair g, Pair z, const RowNumbers& n, Pair g_mean,
                                             Pair product_mean) {
    const Pair v = sub(sub(g, g_mean), mul(z, product_mean));
    return mul(mul(v, both(n.factor)), both(n.scale));
  }
};

template <class V>
void norm_backward_rows(const void* dy, const void* x, const void* w, const void* added, void* dx,
                        void* numbers, int64_t columns, float eps, float shift, int64_t w_stride,
                        int64_t dy_row, int64_t dy_column, int64_t x_row, int64_t x_column,
                        int64_t added_row, int64_t added_column, int64_t dx_row, int64_t dx_column,
                        int64_t begin, int64_t end) {
  using T = typename V::T;
  const auto run = [&](auto variant) __attribute__((always_inline)) {
    using S = decltype(variant);
    BackwardRows<S, V::LAYER == 1> rows;
    rows.w = static_cast<const typename V::W*>(w);
    rows.columns = columns, rows.w_stride = w_stride, rows.eps = eps, rows.shift = shift;
    rows.dy_column = dy_column, rows.x_column = x_column, rows.dx_column = dx_column;
    rows.added_column = added_column;
    for (int64_t row = begin; row < end; row++) {
      rows.dy = static_cast<const T*>(dy) + row * dy_row;
      rows.x = static_cast<const T*>(x) + row * x_row;
      rows.added = added == nullptr ? nullptr : static_cast<const T*>(added) + row * added_row;
      rows.dx = static_cast<T*>(dx) + row * dx_row;
      const RowNumbers n = rows.numbers();
      static_cast<RowNumbers*>(numbers)[row] = n;
      rows.run(n);
    }
  };
  const bool contiguous = dy_column == 1 && x_column == 1 && dx_column == 1 && w_stride == 1 &&
                          (added == nullptr || added_column == 1);
  if (contiguous) {
    run(BackwardVariant<V, 1>());
  } else {
    run(BackwardVariant<V, 0>());
  }
}

// Work items are slabs of rows; partials[slab][weight gradients, bias gradients][column].
template <class V>
void norm_backward_partials(const void* dy_data, const void* x_data, const void* numbers,
                            void* partials, int64_t rows, int64_t columns, int64_t slab_rows,
                            int64_t dy_row, int64_t dy_column, int64_t x_row, int64_t x_column,
                            int64_t begin, int64_t end) {
  using T = typename V::T;
  for (int64_t slab = begin; slab < end; slab++) {
    double* weights = static_cast<double*>(partials) + slab * columns * (1 + V::LAYER);
    double* biases = weights + columns;
    for (int64_t i = 0; i < columns * (1 + V::LAYER); i++) weights[i] = 0;
    for (int64_t row = slab * slab_rows; row < lesser((slab + 1) * slab_rows, rows); row++) {
      const T* dy = static_cast<const T*>(dy_data) + row * dy_row;
      const T* x = static_cast<const T*>(x_data) + row * x_row;
      const RowNumbers n = static_cast<const RowNumbers*>(numbers)[row];
      for (int64_t i = 0; i < columns; i++) {
        const float d = to_f32(dy[i * dy_column]);
        const float z = (to_f32(x[i * x_column]) * n.scale - n.mean) * n.factor;
        weights[i] += static_cast<double>(d) * static_cast<double>(z);
        if constexpr (V::LAYER == 1) biases[i] += static_cast<double>(d);
      }
    }
  }
}

// Work items are columns.
template <class V>
void norm_backward_sums(const void* partials, void* dw, void* db, int64_t columns, int64_t slabs,
                        int64_t dw_stride, int64_t db_stride, int64_t begin, int64_t end) {
  using W = typename V::W;
  const double* parts = static_cast<const double*>(partials);
  for (int64_t i = begin; i < end; i++) {
    double weight = 0, bias = 0;
    for (int64_t slab = 0; slab < slabs; slab++) {
      weight += parts[slab * columns * (1 + V::LAYER) + i];
      if constexpr (V::LAYER == 1) bias += parts[(slab * 2 + 1) * columns + i];
    }
    static_cast<W*>(dw)[i * dw_stride] = from_f32<W>(static_cast<float>(weight));
    if constexpr (V::LAYER == 1)
      static_cast<W*>(db)[i * db_stride] = from_f32<W>(static_cast<float>(bias));
  }
}

}  // namespace cpu
using cpu::norm_backward_partials;
using cpu::norm_backward_rows;
using cpu::norm_backward_sums;
}  // namespace opforge
