// RMS normalisation: the mean square and every result in double, rounded once to f32 and T.
#include "opforge_rows_opencl.h"

OPFORGE_ROWS(T)
OPFORGE_ROWS(W)

OPFORGE_KERNEL(rms_norm)(global const T* x, global const W* w, global T* y, long columns, float eps,
                         long w_stride, long x_row_stride, long x_column_stride, long y_row_stride,
                         long y_column_stride) {
  local double shared[V_BLOCK];
  const long row = (long)get_group_id(0);
  global const T* from = x + row * x_row_stride;
  global T* to = y + row * y_row_stride;
  double8 squares = 0.0;
  for OPFORGE_EACH_VECTOR(v, columns) {
    const double8 value = convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f));
    squares += value * value;
  }
  const double mean = opforge_group_sum(opforge_lanes(squares), shared) / (double)columns;
  const double scale = 1.0 / sqrt(mean + (double)eps);
  for OPFORGE_EACH_VECTOR(v, columns) {
    const double8 value = convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f));
    const double8 weight =
        convert_double8(W_row8(w, v, columns, w_stride, 0.0f)) + (double)V_zero_centered;
    T_put_row8(to, v, columns, y_column_stride, convert_float8(value * scale * weight));
  }
}
