// y = alpha * x, element by element. The product is taken in f32 and rounded once to T.
#include "opforge_elementwise_opencl.h"

OPFORGE_KERNEL(scale)(global const T* x, global T* y, long rows, long columns, long x_row,
                      long x_column, long y_row, long y_column, float alpha) {
  const long count = rows * columns;
  if (OPFORGE_FIRST >= count) return;
  const float8 v = T_get8(x, OPFORGE_FIRST, count, columns, x_row, x_column);
  T_put8(y, OPFORGE_FIRST, count, columns, y_row, y_column, v * alpha);
}
