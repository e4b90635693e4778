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

  struct State {
    const T* x;
    float scale, factor;  // y = x * scale * factor * w
  };

  const T* x;
  const W* w;
  T* y;
  float eps;
  int64_t columns, w_stride, x_row, x_column, y_row, y_column;
  State in, out;
  T* target;
  Pair low, high;
  double sum;

  OPFORGE_INLINE_MEMBER void read_begin(int64_t row) {
    in.x = x + row * x_row;
    low = high = both(0.0f);
    sum = 0;
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void read(int64_t column) {
    prefetch_step<V>(in.x, column);
    const Step v = load_step<T, kContiguous, kFull>(in.x, x_column, column, columns);
    low = fma(v.low, v.low, low);
    high = fma(v.high, v.high, high);
  }
  OPFORGE_INLINE_MEMBER void read_chunk(int64_t, int64_t) {
    sum += static_cast<double>(lane_sum(add(low, high)));
    low = high = both(0.0f);
  }
  OPFORGE_INLINE_MEMBER void read_end() {
    in.scale = 1.0f;
    // Squares left f32's range, or some that were too small for it count: rare, so once more in
    // double.
    if (!(sum < static_cast<double>(__builtin_inff())) || (sum < 0x1p-60 && eps < 0x1p-60f)) {
      sum = 0;
      for (int64_t i = 0; i < columns; i++) {
        const double v = static_cast<double>(to_f32(in.x[i * x_column]));
        sum += v * v;
      }
      const double rms =
          __builtin_sqrt(sum / static_cast<double>(columns) + static_cast<double>(eps));
      in.scale = inverse_power(static_cast<float>(rms));
      in.factor = static_cast<float>(1.0 / (rms * static_cast<double>(in.scale)));
      return;
    }
    in.factor = static_cast<float>(
        1.0 / __builtin_sqrt(sum / static_cast<double>(columns) + static_cast<double>(eps)));
  }

  OPFORGE_INLINE_MEMBER bool write_begin(int64_t row) {
    out = in;
    target = y + row * y_row;
    return kContiguous && can_stream(target);
  }
  template <bool kFull, bool kStream>
  OPFORGE_INLINE_MEMBER void write(int64_t column) {
    Step v = load_step<T, kContiguous, kFull>(out.x, x_column, column, columns);
    Step weight = load_step<T, kContiguous, kFull>(w, w_stride, column, columns);
    if constexpr (V::zero_centered)
      weight = {add(weight.low, both(1.0f)), add(weight.high, both(1.0f))};
    if constexpr (!is_same<T, f16>) v = {mul(v.low, both(out.scale)), mul(v.high, both(out.scale))};
    const Pair factor = both(out.factor);
    v = {mul(mul(v.low, factor), weight.low), mul(mul(v.high, factor), weight.high)};
    store_step<kContiguous, kFull, kStream>(target, y_column, column, columns, v);
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
