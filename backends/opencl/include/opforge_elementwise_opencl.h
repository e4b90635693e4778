// Elementwise OpenCL kernels over rows x columns. A work-item has the eight elements from
// OPFORGE_FIRST on, in row-major order, and computes all of them as one float8, those beyond the
// end too: so an element's bits do not depend on where it stands (a function of a float8 may
// differ from that of a float in the last bit).
//
// V_LAYOUT 1: every tensor is contiguous
//          2: contiguous columns, and a multiple of eight of them; rows anywhere
//          0: any strides
#pragma once

#include "opforge_opencl.h"

#define OPFORGE_FIRST ((long)get_global_id(0) * 8)

// T_get8(p, first, count, columns, row_stride, column_stride): elements `first` to `first` + 7;
// those at `count` and beyond are 0. T_put8(..., v): the same elements, those below `count`.
#define OPFORGE_ELEMENTWISE(T)                                                                    \
  static inline float8 T##_get8(global const T* p, long first, long count, long columns,          \
                                long row_stride, long column_stride) {                            \
    if (V_LAYOUT == 1 && first + 8 <= count) return T##_LOAD8(p + first, 0);                      \
    long row = first / columns, column = first - row * columns;                                   \
    if (V_LAYOUT == 2) return T##_LOAD8(p + row * row_stride + column, 0);                        \
    float v[8];                                                                                   \
    for (int k = 0; k < 8; ++k) {                                                                 \
      v[k] = first + k < count ? T##_LOAD(p, row * row_stride + column * column_stride) : 0.0f;   \
      if (++column == columns) column = 0, ++row;                                                 \
    }                                                                                             \
    return vload8(0, v);                                                                          \
  }                                                                                               \
  static inline void T##_put8(global T* p, long first, long count, long columns, long row_stride, \
                              long column_stride, float8 value) {                                 \
    if (V_LAYOUT == 1 && first + 8 <= count) {                                                    \
      T##_STORE8(p + first, 0, value);                                                            \
      return;                                                                                     \
    }                                                                                             \
    long row = first / columns, column = first - row * columns;                                   \
    if (V_LAYOUT == 2) {                                                                          \
      T##_STORE8(p + row * row_stride + column, 0, value);                                        \
      return;                                                                                     \
    }                                                                                             \
    float v[8];                                                                                   \
    vstore8(value, 0, v);                                                                         \
    for (int k = 0; k < 8 && first + k < count; ++k) {                                            \
      T##_STORE(p, row * row_stride + column * column_stride, v[k]);                              \
      if (++column == columns) column = 0, ++row;                                                 \
    }                                                                                             \
  }

OPFORGE_ELEMENTWISE(T)
