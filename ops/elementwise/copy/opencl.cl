// y = x, bit by bit: elements are moved as integers, so that the payload of a NaN survives.
#include "opforge_elementwise_opencl.h"

OPFORGE_KERNEL(copy)(global const T* x, global T* y, long rows, long columns, long x_row,
                     long x_column, long y_row, long y_column) {
  global const T_BITS* from = (global const T_BITS*)x;
  global T_BITS* to = (global T_BITS*)y;
#if V_LAYOUT == 1
  OPFORGE_FLAT(rows * columns, vstore8(vload8(at, from), at, to), to[i] = from[i]);
#else
  OPFORGE_STRIDED(rows, columns, to[row * y_row + column * y_column] = from[row * x_row + column * x_column]);
#endif
}
