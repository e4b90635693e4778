// RMS normalisation. One pass adds squares in f32 lanes, chunk by chunk into a double; the other
// scales, while the next row is read (opforge_rows.hpp).
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct RmsRows {
  using T = typename V::T;
  using W = typename V::W;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  struct Reader {
    const T* x;
    int64_t x_column, columns;
    Step squares;
    double sum;

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      prefetch_step<V>(x, column);
      const Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
      squares = {fma(v.low, v.low, squares.low), fma(v.high, v.high, squares.high)};
    }
    OPFORGE_INLINE_MEMBER void chunk(int64_t, int64_t) {
      sum += static_cast<double>(lane_sum(add(squares.low, squares.high)));
      squares = {both(0.0f), both(0.0f)};
    }
  };

  struct Writer {
    const T* x;
    const W* w;
    T* y;
    int64_t x_column, w_stride, y_column, columns;
    float scale, factor;  // y = x * scale * factor * w
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
      Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
      if constexpr (V::zero_centered)
        weight = {add(weight.low, both(1.0f)), add(weight.high, both(1.0f))};
      if constexpr (!is_same<T, f16>) v = {mul(v.low, both(scale)), mul(v.high, both(scale))};
      v = {mul(mul(v.low, both(factor)), weight.low), mul(mul(v.high, both(factor)), weight.high)};
      store_step<kContiguous, kFull, kStream>(y, y_column, column, columns, v);
    }
  };

  const T* x;
  const W* w;
  T* y;
  float eps;
  int64_t columns, w_stride, x_row, x_column, y_row, y_column;
  float scale, factor;

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) const {
    return {x + row * x_row, x_column, columns, {both(0.0f), both(0.0f)}, 0.0};
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
      const double v = static_cast<double>(to_f32(r.x[i * r.x_column]));
      sum += v * v;
    }
    return sum;
  }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) const {
    T* target = y + row * y_row;
    return {x + row * x_row, w,       target, x_column, w_stride,
            y_column,        columns, scale,  factor,   kContiguous && can_stream(target)};
  }
};

template <class V>
void rms_norm(const void* x, const void* w, void* y, int64_t columns, float eps, int64_t w_stride,
              int64_t x_row_stride, int64_t x_column_stride, int64_t y_row_stride,
              int64_t y_column_stride, int64_t begin, int64_t end) {
  RmsRows<V> rows;
  rows.x = static_cast<const typename V::T*>(x);
  rows.w = static_cast<const typename V::W*>(w);
  rows.y = static_cast<typename V::T*>(y);
  rows.eps = eps;
  rows.columns = columns;
  rows.w_stride = w_stride;
  rows.x_row = x_row_stride;
  rows.x_column = x_column_stride;
  rows.y_row = y_row_stride;
  rows.y_column = y_column_stride;
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::rms_norm;
}  // namespace opforge
