// Layer normalisation: the mean, the squares about it and every result in double, rounded once to
// f32 and T.
#include "opforge_rows_opencl.h"

OPFORGE_ROWS(T)
OPFORGE_ROWS(W)

OPFORGE_KERNEL(layer_norm)(global const T* x, global const W* w, global const W* b, global T* y,
                           long columns, float eps, long w_stride, long b_stride,
                           long x_row_stride, long x_column_stride, long y_row_stride,
                           long y_column_stride) {
  local double shared[V_BLOCK];
  const long row = (long)get_group_id(0);
  global const T* from = x + row * x_row_stride;
  global T* to = y + row * y_row_stride;
  double8 sums = 0.0;
  for OPFORGE_EACH_VECTOR(v, columns) {
    sums += convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f));
  }
  const double mean = opforge_group_sum(opforge_lanes(sums), shared) / (double)columns;
  double8 squares = 0.0;
  for OPFORGE_EACH_VECTOR(v, columns) {
    // Columns that do not exist would be -mean.
    const long left = columns - v * 8;
    const double8 there = convert_double8((int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int)min(left, 8L));
    const double8 d =
        convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f)) - mean;
    squares -= d * d * there;  // true is -1
  }
  const double variance = opforge_group_sum(opforge_lanes(squares), shared) / (double)columns;
  const double scale = 1.0 / sqrt(variance + (double)eps);
  for OPFORGE_EACH_VECTOR(v, columns) {
    const double8 d = convert_double8(T_row8(from, v, columns, x_column_stride, 0.0f)) - mean;
    double8 out = d * scale * convert_double8(W_row8(w, v, columns, w_stride, 0.0f));
    if (b != 0) out += convert_double8(W_row8(b, v, columns, b_stride, 0.0f));
    T_put_row8(to, v, columns, y_column_stride, convert_float8(out));
  }
}
