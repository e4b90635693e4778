// y = x, bit by bit: elements are moved as integers, so that the payload of a NaN survives.
// A work-item has eight elements. V_LAYOUT 1: contiguous; 0: any strides.
#include "opforge_opencl.h"

OPFORGE_KERNEL(copy)(global const T* x, global T* y, long rows, long columns, long x_row,
                     long x_column, long y_row, long y_column) {
  global const T_BITS* from = (global const T_BITS*)x;
  global T_BITS* to = (global T_BITS*)y;
  const long count = rows * columns, first = (long)get_global_id(0) * 8;
  if (V_LAYOUT == 1 && first + 8 <= count) {
    vstore8(vload8(0, from + first), 0, to + first);
    return;
  }
  long row = first / columns, column = first - row * columns;
  for (long i = first; i < first + 8 && i < count; ++i) {
    to[row * y_row + column * y_column] = from[row * x_row + column * x_column];
    if (++column == columns) column = 0, ++row;
  }
}
