// Layer normalisation. A row is read in chunks that stay in the L1: first their mean, then the
// squares about it; chunks are merged in double (Chan, Golub, LeVeque: Updating formulae and a
// pairwise algorithm for computing sample variances, 1979). Writing goes along with the reading of
// the next row (opforge_rows.hpp).
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct LayerRows {
  using T = typename V::T;
  using W = typename V::W;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  struct Reader {
    const T* x;
    int64_t x_column, columns;
    Step sum;
    double mean, squares;  // of the chunks so far

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      prefetch_step<V>(x, column);
      const Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
      sum = {add(sum.low, v.low), add(sum.high, v.high)};
    }
    OPFORGE_INLINE_MEMBER void chunk(int64_t from, int64_t to) {
      const float middle = lane_sum(add(sum.low, sum.high)) / static_cast<float>(to - from);
      sum = {both(0.0f), both(0.0f)};
      Step about{both(0.0f), both(0.0f)};
      const int64_t full = from + (to - from) / kStep * kStep;
      for (int64_t column = from; column < full; column += kStep)
        add_squares<true>(column, middle, about);
      if (full < to) add_squares<false>(full, middle, about);
      const double n = static_cast<double>(to - from), all = static_cast<double>(to);
      const double d = static_cast<double>(middle) - mean;
      squares += static_cast<double>(lane_sum(add(about.low, about.high))) +
                 d * d * (n * static_cast<double>(from) / all);
      mean += d * (n / all);
    }
    template <bool kFull>
    OPFORGE_INLINE_MEMBER void add_squares(int64_t column, float middle, Step& about) const {
      Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
      v = {sub(v.low, both(middle)), sub(v.high, both(middle))};
      if constexpr (!kFull) {
        const Step inside = first_elements<T>(columns - column);
        v = {mul(v.low, inside.low), mul(v.high, inside.high)};
      }
      about = {fma(v.low, v.low, about.low), fma(v.high, v.high, about.high)};
    }
  };

  struct Writer {
    const T* x;
    const W *w, *b;  // b may be null
    T* y;
    int64_t x_column, w_stride, b_stride, y_column, columns;
    float scale, mean, factor;  // y = (x * scale - mean) * factor * w + b
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
      const Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
      const Pair minus = both(-mean);
      v = {mul(fma(v.low, both(scale), minus), both(factor)),
           mul(fma(v.high, both(scale), minus), both(factor))};
      if (b != nullptr) {
        const Step bias = load_step<T, kContiguous, kFull>(b, b_stride, column, columns);
        v = {fma(v.low, weight.low, bias.low), fma(v.high, weight.high, bias.high)};
      } else {
        v = {mul(v.low, weight.low), mul(v.high, weight.high)};
      }
      store_step<kContiguous, kFull, kStream>(y, y_column, column, columns, v);
    }
  };

  const T* x;
  const W *w, *b;
  T* y;
  float eps;
  int64_t columns, w_stride, b_stride, x_row, x_column, y_row, y_column;
  float scale, mean, factor;

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) const {
    return {x + row * x_row, x_column, columns, {both(0.0f), both(0.0f)}, 0.0, 0.0};
  }
  OPFORGE_INLINE_MEMBER void finish(Reader& r) {
    // The sum or the squares left f32's range, or some that were too small for it count: rare, so
    // once more in double.
    const bool again = !(r.squares < static_cast<double>(__builtin_inff())) ||
                       (r.squares < 0x1p-60 && eps < 0x1p-60f);
    if (again) exact_moments(r);
    const double deviation =
        __builtin_sqrt(r.squares / static_cast<double>(columns) + static_cast<double>(eps));
    const double size = r.mean < 0 ? -r.mean : r.mean;
    scale = again ? inverse_power(static_cast<float>(size > deviation ? size : deviation)) : 1.0f;
    mean = static_cast<float>(r.mean * static_cast<double>(scale));
    factor = static_cast<float>(1.0 / (deviation * static_cast<double>(scale)));
  }
  static __attribute__((noinline)) void exact_moments(Reader& r) {
    r.mean = r.squares = 0;
    for (int64_t i = 0; i < r.columns; i++)
      r.mean += static_cast<double>(to_f32(r.x[i * r.x_column]));
    r.mean /= static_cast<double>(r.columns);
    for (int64_t i = 0; i < r.columns; i++) {
      const double d = static_cast<double>(to_f32(r.x[i * r.x_column])) - r.mean;
      r.squares += d * d;
    }
  }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) const {
    T* target = y + row * y_row;
    return {x + row * x_row,
            w,
            b,
            target,
            x_column,
            w_stride,
            b_stride,
            y_column,
            columns,
            scale,
            mean,
            factor,
            kContiguous && can_stream(target)};
  }
};

template <class V>
void layer_norm(const void* x, const void* w, const void* b, void* y, int64_t columns, float eps,
                int64_t w_stride, int64_t b_stride, int64_t x_row_stride, int64_t x_column_stride,
                int64_t y_row_stride, int64_t y_column_stride, int64_t begin, int64_t end) {
  LayerRows<V> rows;
  rows.x = static_cast<const typename V::T*>(x);
  rows.w = static_cast<const typename V::W*>(w);
  rows.b = static_cast<const typename V::W*>(b);
  rows.y = static_cast<typename V::T*>(y);
  rows.eps = eps;
  rows.columns = columns;
  rows.w_stride = w_stride;
  rows.b_stride = b_stride;
  rows.x_row = x_row_stride;
  rows.x_column = x_column_stride;
  rows.y_row = y_row_stride;
  rows.y_column = y_column_stride;
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::layer_norm;
}  // namespace opforge
