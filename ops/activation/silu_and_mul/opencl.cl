// silu(gate) * up over rows of 2 N elements, in f32.
#include "opforge_activations_opencl.h"
#include "opforge_elementwise_opencl.h"

OPFORGE_KERNEL(silu_and_mul)(global const T* x, global T* y, long rows, long columns, long x_row,
                             long x_column, long y_row, long y_column) {
  const long count = rows * columns;
  if (OPFORGE_FIRST >= count) return;
  const float8 gate = T_get8(x, OPFORGE_FIRST, count, columns, x_row, x_column);
  const float8 up =
      T_get8(x + columns * x_column, OPFORGE_FIRST, count, columns, x_row, x_column);
  T_put8(y, OPFORGE_FIRST, count, columns, y_row, y_column, opforge_silu(gate) * up);
}
