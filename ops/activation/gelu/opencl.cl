// GELU, element by element, in f32. V_form 0: erf, 1: tanh.
#include "opforge_activations_opencl.h"
#include "opforge_elementwise_opencl.h"

OPFORGE_KERNEL(gelu)(global const T* x, global T* y, long rows, long columns, long x_row,
                     long x_column, long y_row, long y_column) {
  const long count = rows * columns;
  if (OPFORGE_FIRST >= count) return;
  const float8 v = T_get8(x, OPFORGE_FIRST, count, columns, x_row, x_column);
  const float8 out = V_form == 0 ? opforge_gelu_erf(v) : opforge_gelu_tanh(v);
  T_put8(y, OPFORGE_FIRST, count, columns, y_row, y_column, out);
}
