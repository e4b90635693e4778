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

  struct State {
    const T* x;
    float scale, mean, factor;  // y = (x * scale - mean) * factor * w + b
  };

  const T* x;
  const W *w, *b;  // b may be null
  T* y;
  float eps;
  int64_t columns, w_stride, b_stride, x_row, x_column, y_row, y_column;
  State in, out;
  T* target;
  Pair low, high;
  double mean, squares;

  OPFORGE_INLINE_MEMBER void read_begin(int64_t row) {
    in.x = x + row * x_row;
    low = high = both(0.0f);
    mean = squares = 0;
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void read(int64_t column) {
    prefetch_step<V>(in.x, column);
    const Step v = load_step<T, kContiguous, kFull>(in.x, x_column, column, columns);
    low = add(low, v.low);
    high = add(high, v.high);
  }
  OPFORGE_INLINE_MEMBER void read_chunk(int64_t from, int64_t to) {
    const double n = static_cast<double>(to - from);
    const float middle = lane_sum(add(low, high)) / static_cast<float>(to - from);
    low = high = both(0.0f);
    Pair square_low = both(0.0f), square_high = both(0.0f);
    const int64_t full = from + (to - from) / kStep * kStep;
    for (int64_t column = from; column < full; column += kStep)
      about<true>(column, middle, square_low, square_high);
    if (full < to) about<false>(full, middle, square_low, square_high);
    const double d = static_cast<double>(middle) - mean;
    squares += static_cast<double>(lane_sum(add(square_low, square_high))) +
               d * d * (n * static_cast<double>(from) / static_cast<double>(to));
    mean += d * (n / static_cast<double>(to));
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void about(int64_t column, float middle, Pair& square_low,
                                   Pair& square_high) {
    Step v = load_step<T, kContiguous, kFull>(in.x, x_column, column, columns);
    v = {sub(v.low, both(middle)), sub(v.high, both(middle))};
    if constexpr (!kFull) {
      const Step inside = first_elements<T>(columns - column);
      v = {mul(v.low, inside.low), mul(v.high, inside.high)};
    }
    square_low = fma(v.low, v.low, square_low);
    square_high = fma(v.high, v.high, square_high);
  }
  OPFORGE_INLINE_MEMBER void read_end() {
    in.scale = 1.0f;
    // The sum or the squares left f32's range, or some that were too small for it count: rare, so
    // once more in double.
    if (!(squares < static_cast<double>(__builtin_inff())) ||
        (squares < 0x1p-60 && eps < 0x1p-60f)) {
      mean = squares = 0;
      for (int64_t i = 0; i < columns; i++) mean += static_cast<double>(to_f32(in.x[i * x_column]));
      mean /= static_cast<double>(columns);
      for (int64_t i = 0; i < columns; i++) {
        const double d = static_cast<double>(to_f32(in.x[i * x_column])) - mean;
        squares += d * d;
      }
      const double deviation =
          __builtin_sqrt(squares / static_cast<double>(columns) + static_cast<double>(eps));
      const double size = mean < 0 ? -mean : mean;
      in.scale = inverse_power(static_cast<float>(size > deviation ? size : deviation));
      in.mean = static_cast<float>(mean * static_cast<double>(in.scale));
      in.factor = static_cast<float>(1.0 / (deviation * static_cast<double>(in.scale)));
      return;
    }
    in.mean = static_cast<float>(mean);
    in.factor = static_cast<float>(
        1.0 / __builtin_sqrt(squares / static_cast<double>(columns) + static_cast<double>(eps)));
  }

  OPFORGE_INLINE_MEMBER bool write_begin(int64_t row) {
    out = in;
    target = y + row * y_row;
    return kContiguous && can_stream(target);
  }
  template <bool kFull, bool kStream>
  OPFORGE_INLINE_MEMBER void write(int64_t column) {
    Step v = load_step<T, kContiguous, kFull>(out.x, x_column, column, columns);
    const Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
    const Pair scale = both(out.scale), minus = both(-out.mean), factor = both(out.factor);
    v = {mul(fma(v.low, scale, minus), factor), mul(fma(v.high, scale, minus), factor)};
    if (b != nullptr) {
      const Step bias = load_step<T, kContiguous, kFull>(b, b_stride, column, columns);
      v = {fma(v.low, weight.low, bias.low), fma(v.high, weight.high, bias.high)};
    } else {
      v = {mul(v.low, weight.low), mul(v.high, weight.high)};
    }
    store_step<kContiguous, kFull, kStream>(target, y_column, column, columns, v);
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
