// Sum over the last dim. Lanes are added in f32 over a chunk, chunks in double: partial sums are
// never in T.
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct SumRows {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;

  const T* x;
  T* y;
  int64_t columns, x_row, x_column, y_stride;
  const T* line;
  int64_t row;
  Pair low, high;
  double sum;

  OPFORGE_INLINE_MEMBER void read_begin(int64_t number) {
    row = number;
    line = x + row * x_row;
    low = high = both(0.0f);
    sum = 0;
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void read(int64_t column) {
    prefetch_step<V>(line, column);
    const Step v = load_step<T, kContiguous, kFull>(line, x_column, column, columns);
    low = add(low, v.low);
    high = add(high, v.high);
  }
  OPFORGE_INLINE_MEMBER void read_chunk(int64_t, int64_t) {
    sum += static_cast<double>(lane_sum(add(low, high)));
    low = high = both(0.0f);
  }
  OPFORGE_INLINE_MEMBER void read_end() {
    const double largest = static_cast<double>(3.40282347e38f);
    if (!(-largest <= sum &&
          sum <=
              largest)) {  // a lane left f32's range although the sum may not: once more in double
      sum = 0;
      for (int64_t i = 0; i < columns; i++) sum += static_cast<double>(to_f32(line[i * x_column]));
    }
    y[row * y_stride] = from_f32<T>(static_cast<float>(sum));
  }
};

template <class V>
void reduce_sum(const void* x, void* y, int64_t columns, int64_t x_row_stride,
                int64_t x_column_stride, int64_t y_stride, int64_t begin, int64_t end) {
  SumRows<V> rows;
  rows.x = static_cast<const typename V::T*>(x);
  rows.y = static_cast<typename V::T*>(y);
  rows.columns = columns;
  rows.x_row = x_row_stride;
  rows.x_column = x_column_stride;
  rows.y_stride = y_stride;
  for (int64_t row = begin; row < end; row++) {
    rows.read_begin(row);
    row_pass<V, true, false>(rows, columns, false);
    rows.read_end();
  }
}

}  // namespace cpu
using cpu::reduce_sum;
}  // namespace opforge
