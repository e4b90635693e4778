// Gradient of softmax: products of a row are added in f32 lanes, chunk by chunk into a double; the
// other pass writes y (dy - sum), while the next row is read (opforge_rows.hpp).
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct SoftmaxBackwardRows {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  struct Reader {
    const T *dy, *y;
    int64_t dy_column, y_column, columns;
    Step products;
    double sum;

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      prefetch_step<V>(dy, column);
      prefetch_step<V>(y, column);
      const Step a = load_step<T, kContiguous, kFull>(dy, dy_column, column, columns);
      const Step b = load_step<T, kContiguous, kFull>(y, y_column, column, columns);
      products = {fma(a.low, b.low, products.low), fma(a.high, b.high, products.high)};
    }
    OPFORGE_INLINE_MEMBER void chunk(int64_t, int64_t) {
      sum += static_cast<double>(lane_sum(add(products.low, products.high)));
      products = {both(0.0f), both(0.0f)};
    }
  };

  struct Writer {
    const T *dy, *y;
    T* dx;
    int64_t dy_column, y_column, dx_column, columns;
    float sum;
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      const Step a = load_step<T, kContiguous, kFull>(dy, dy_column, column, columns);
      const Step b = load_step<T, kContiguous, kFull>(y, y_column, column, columns);
      const Pair base = both(sum);
      store_step<kContiguous, kFull, kStream>(
          dx, dx_column, column, columns,
          {mul(b.low, sub(a.low, base)), mul(b.high, sub(a.high, base))});
    }
  };

  const T *dy, *y;
  T* dx;
  int64_t columns, dy_row, dy_column, y_row, y_column, dx_row, dx_column;
  float sum;

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) const {
    return {dy + row * dy_row, y + row * y_row,          dy_column, y_column,
            columns,           {both(0.0f), both(0.0f)}, 0.0};
  }
  OPFORGE_INLINE_MEMBER void finish(const Reader& r) { sum = static_cast<float>(r.sum); }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) const {
    T* target = dx + row * dx_row;
    return {dy + row * dy_row,
            y + row * y_row,
            target,
            dy_column,
            y_column,
            dx_column,
            columns,
            sum,
            kContiguous && can_stream(target)};
  }
};

template <class V>
void softmax_backward(const void* dy, const void* y, void* dx, int64_t columns, int64_t dy_row,
                      int64_t dy_column, int64_t y_row, int64_t y_column, int64_t dx_row,
                      int64_t dx_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  SoftmaxBackwardRows<V> rows{static_cast<const T*>(dy),
                              static_cast<const T*>(y),
                              static_cast<T*>(dx),
                              columns,
                              dy_row,
                              dy_column,
                              y_row,
                              y_column,
                              dx_row,
                              dx_column,
                              0.0f};
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::softmax_backward;
}  // namespace opforge
