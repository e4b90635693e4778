// Sum over the last dim. Lanes are added in f32 over a chunk, chunks in double: partial sums are
// never in T.
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct SumReader {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  const T* x;
  int64_t x_column, columns;
  Step lanes;
  double sum;

  template <bool kFull>
  OPFORGE_INLINE_MEMBER void read(int64_t column) {
    prefetch_step<V>(x, column);
    const Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns);
    lanes = {add(lanes.low, v.low), add(lanes.high, v.high)};
  }
  OPFORGE_INLINE_MEMBER void chunk(int64_t, int64_t) {
    sum += static_cast<double>(lane_sum(add(lanes.low, lanes.high)));
    lanes = {both(0.0f), both(0.0f)};
  }
  __attribute__((noinline)) void add_exactly() {
    sum = 0;
    for (int64_t i = 0; i < columns; i++) sum += static_cast<double>(to_f32(x[i * x_column]));
  }
};
struct NoWriter {};

template <class V>
void reduce_sum(const void* x, void* y, int64_t columns, int64_t x_row_stride,
                int64_t x_column_stride, int64_t y_stride, int64_t begin, int64_t end) {
  using T = typename V::T;
  const double largest = static_cast<double>(3.40282347e38f);
  for (int64_t row = begin; row < end; row++) {
    SumReader<V> reader{static_cast<const T*>(x) + row * x_row_stride,
                        x_column_stride,
                        columns,
                        {both(0.0f), both(0.0f)},
                        0.0};
    row_pass<V, true, false>(reader, NoWriter(), columns);
    // A lane left f32's range although the sum may not: once more in double.
    if (!(-largest <= reader.sum && reader.sum <= largest)) reader.add_exactly();
    static_cast<T*>(y)[row * y_stride] = from_f32<T>(static_cast<float>(reader.sum));
  }
}

}  // namespace cpu
using cpu::reduce_sum;
}  // namespace opforge
