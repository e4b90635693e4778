// exp(x - max) / sum over the last dim: the maximum, the sum in double, the quotients. A maximum
// passes NaN over; the sum does not, so that a NaN makes its row NaN, as does x - max for +inf or a
// row of -inf.
#include "opforge_rows_opencl.h"

OPFORGE_ROWS(T)

OPFORGE_KERNEL(softmax)(global const T* x, global T* y, long columns, long x_row_stride,
                        long x_column_stride, long y_row_stride, long y_column_stride) {
  local double shared[V_BLOCK];
  const long row = (long)get_group_id(0);
  global const T* from = x + row * x_row_stride;
  global T* to = y + row * y_row_stride;
  float8 most = -INFINITY;
  for OPFORGE_EACH_VECTOR(v, columns) {
    most = fmax(most, T_row8(from, v, columns, x_column_stride, -INFINITY));
  }
  const float4 four = fmax(most.lo, most.hi);
  const float2 two = fmax(four.lo, four.hi);
  const float largest = (float)opforge_group_max(fmax(two.x, two.y), shared);
  double8 sums = 0.0;
  for OPFORGE_EACH_VECTOR(v, columns) {
    const float8 d = T_row8(from, v, columns, x_column_stride, -INFINITY) - largest;
    sums += convert_double8(exp(d));
  }
  const float scale = (float)(1.0 / opforge_group_sum(opforge_lanes(sums), shared));
  for OPFORGE_EACH_VECTOR(v, columns) {
    const float8 d = T_row8(from, v, columns, x_column_stride, -INFINITY) - largest;
    T_put_row8(to, v, columns, y_column_stride, exp(d) * scale);
  }
}
