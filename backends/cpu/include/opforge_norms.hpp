// Rows of the norms, over a plain row or over the sum of two rows (a residual that is updated in
// place): squares or moments while a row is read, scaling while the next one is (opforge_rows.hpp).
#pragma once

#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

// What is normalised: x, or x + r in f32. Every pass adds again, so that what is normalised is not
// rounded to T; the writer then puts the rounded sum into r.
template <class V, bool kAdds>
struct NormSource {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  const T* x;
  int64_t x_column;
  T* r;  // kAdds only
  int64_t r_column;

  OPFORGE_INLINE_MEMBER void ahead(int64_t column) const {
    prefetch_step<V>(x, column);
    if constexpr (kAdds) prefetch_step<V>(r, column);
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER Step load(int64_t column, int64_t columns) const {
    Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
    if constexpr (kAdds) {
      const Step other = load_step<T, kContiguous, kFull>(r, r_column, column, columns);
      v = {add(v.low, other.low), add(v.high, other.high)};
    }
    return v;
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void update(int64_t column, int64_t columns, Step v) const {
    if constexpr (kAdds) store_step<kContiguous, kFull, false>(r, r_column, column, columns, v);
  }
  double element(int64_t i) const {
    float v = to_f32(x[i * x_column]);
    if constexpr (kAdds) v += to_f32(r[i * r_column]);
    return static_cast<double>(v);
  }
};
// Where the sources of all rows lie.
template <class V, bool kAdds>
struct NormSources {
  using T = typename V::T;
  const T* x;
  int64_t x_row, x_column;
  T* r;
  int64_t r_row, r_column;
  OPFORGE_INLINE_MEMBER NormSource<V, kAdds> row(int64_t i) const {
    return {x + i * x_row, x_column, kAdds ? r + i * r_row : nullptr, r_column};
  }
};

// RMS normalisation: squares in f32 lanes, chunk by chunk into a double.
template <class V, bool kAdds, bool kZeroCentered>
struct RmsRows {
  using T = typename V::T;
  using W = typename V::W;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  struct Reader {
    NormSource<V, kAdds> in;
    int64_t columns;
    Step squares;
    double sum;

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      in.ahead(column);
      const Step v = in.template load<kFull>(column, columns);
      squares = {fma(v.low, v.low, squares.low), fma(v.high, v.high, squares.high)};
    }
    OPFORGE_INLINE_MEMBER void chunk(int64_t, int64_t) {
      sum += static_cast<double>(lane_sum(add(squares.low, squares.high)));
      squares = {both(0.0f), both(0.0f)};
    }
  };

  struct Writer {
    NormSource<V, kAdds> in;
    const W* w;
    T* y;
    int64_t w_stride, y_column, columns;
    float scale, factor;  // y = x * scale * factor * w
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      Step v = in.template load<kFull>(column, columns);
      in.template update<kFull>(column, columns, v);
      Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
      if constexpr (kZeroCentered)
        weight = {add(weight.low, both(1.0f)), add(weight.high, both(1.0f))};
      if constexpr (!is_same<T, f16>) v = {mul(v.low, both(scale)), mul(v.high, both(scale))};
      v = {mul(mul(v.low, both(factor)), weight.low), mul(mul(v.high, both(factor)), weight.high)};
      store_step<kContiguous, kFull, kStream>(y, y_column, column, columns, v);
    }
  };

  NormSources<V, kAdds> sources;
  const W* w;
  T* y;
  float eps;
  int64_t columns, w_stride, y_row, y_column;
  float scale, factor;

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) const {
    return {sources.row(row), columns, {both(0.0f), both(0.0f)}, 0.0};
  }
  OPFORGE_INLINE_MEMBER void finish(const Reader& r) {
    double sum = r.sum;
    scale = 1.0f;
    // Squares left f32's range, or some that were too small for it count: rare, so once more in
    // double.
    const bool again =
        !(sum < static_cast<double>(__builtin_inff())) || (sum < 0x1p-60 && eps < 0x1p-60f);
    if (again) sum = exact_squares(r);
    const double rms =
        __builtin_sqrt(sum / static_cast<double>(columns) + static_cast<double>(eps));
    if (again) scale = inverse_power(static_cast<float>(rms));
    factor = static_cast<float>(1.0 / (rms * static_cast<double>(scale)));
  }
  static __attribute__((noinline)) double exact_squares(const Reader& r) {
    double sum = 0;
    for (int64_t i = 0; i < r.columns; i++) {
      const double v = r.in.element(i);
      sum += v * v;
    }
    return sum;
  }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) const {
    T* target = y + row * y_row;
    return {sources.row(row),
            w,
            target,
            w_stride,
            y_column,
            columns,
            scale,
            factor,
            kContiguous && can_stream(target)};
  }
};

// Layer normalisation: chunks that stay in the L1, first their mean, then the squares about it;
// chunks are merged in double (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for
// computing sample variances, 1979).
template <class V, bool kAdds>
struct LayerRows {
  using T = typename V::T;
  using W = typename V::W;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  struct Reader {
    NormSource<V, kAdds> in;
    int64_t columns;
    Step sum;
    double mean, squares;  // of the chunks so far

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      in.ahead(column);
      const Step v = in.template load<kFull>(column, columns);
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
      Step v = in.template load<kFull>(column, columns);
      v = {sub(v.low, both(middle)), sub(v.high, both(middle))};
      if constexpr (!kFull) {
        const Step inside = first_elements<T>(columns - column);
        v = {mul(v.low, inside.low), mul(v.high, inside.high)};
      }
      about = {fma(v.low, v.low, about.low), fma(v.high, v.high, about.high)};
    }
  };

  struct Writer {
    NormSource<V, kAdds> in;
    const W *w, *b;  // b may be null
    T* y;
    int64_t w_stride, b_stride, y_column, columns;
    float scale, mean, factor;  // y = (x * scale - mean) * factor * w + b
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      Step v = in.template load<kFull>(column, columns);
      in.template update<kFull>(column, columns, v);
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

  NormSources<V, kAdds> sources;
  const W *w, *b;
  T* y;
  float eps;
  int64_t columns, w_stride, b_stride, y_row, y_column;
  float scale, mean, factor;

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) const {
    return {sources.row(row), columns, {both(0.0f), both(0.0f)}, 0.0, 0.0};
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
    for (int64_t i = 0; i < r.columns; i++) r.mean += r.in.element(i);
    r.mean /= static_cast<double>(r.columns);
    for (int64_t i = 0; i < r.columns; i++) {
      const double d = r.in.element(i) - r.mean;
      r.squares += d * d;
    }
  }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) const {
    T* target = y + row * y_row;
    return {sources.row(row), w,       b,     target, w_stride, b_stride,
            y_column,         columns, scale, mean,   factor,   kContiguous && can_stream(target)};
  }
};

}  // namespace cpu
}  // namespace opforge
