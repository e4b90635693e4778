// Sum over the last dim, in double, rounded once to f32 and T.
#include "opforge_rows_opencl.h"

OPFORGE_ROWS(T)

OPFORGE_KERNEL(reduce_sum)(global const T* x, global T* y, long columns, long y_stride,
                           long x_row_stride, long x_column_stride) {
  local double shared[V_BLOCK];
  const long row = (long)get_group_id(0);
  global const T* from = x + row * x_row_stride;
  double8 sums = 0.0;
  for OPFORGE_EACH_VECTOR(v, columns) {
    sums += convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f));
  }
  const double sum = opforge_group_sum(opforge_lanes(sums), shared);
  if (get_local_id(0) == 0) T_STORE(y, row * y_stride, (float)sum);
}
