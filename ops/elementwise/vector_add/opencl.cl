// y = a + b, element by element. The sum is taken in f32 and rounded once to T.
#include "opforge_elementwise_opencl.h"

OPFORGE_KERNEL(vector_add)(global const T* a, global const T* b, global T* y, long rows,
                           long columns, long a_row, long a_column, long b_row, long b_column,
                           long y_row, long y_column) {
  const long count = rows * columns;
  if (OPFORGE_FIRST >= count) return;
  const float8 u = T_get8(a, OPFORGE_FIRST, count, columns, a_row, a_column);
  const float8 v = T_get8(b, OPFORGE_FIRST, count, columns, b_row, b_column);
  T_put8(y, OPFORGE_FIRST, count, columns, y_row, y_column, u + v);
}
