// Elementwise OpenCL kernels over rows x columns.
//
// V_LAYOUT 1: every tensor is contiguous. A work-item has eight elements; `vector` handles vector
//             `at` of eight, `element` element `i` of what is left at the end.
// V_LAYOUT 0: any strides. A work-item has the element at (`row`, `column`): `element`.
#pragma once

#include "opforge_opencl.h"

#define OPFORGE_FLAT(count, vector, element)     \
  do {                                           \
    const long at = (long)get_global_id(0);      \
    if ((at + 1) * 8 <= (count)) {               \
      vector;                                    \
    } else {                                     \
      for (long i = at * 8; i < (count); ++i) {  \
        element;                                 \
      }                                          \
    }                                            \
  } while (0)

#define OPFORGE_STRIDED(rows, columns, element)            \
  do {                                                     \
    const long i = (long)get_global_id(0);                 \
    if (i < (rows) * (columns)) {                          \
      const long row = i / (columns), column = i % (columns); \
      element;                                             \
    }                                                      \
  } while (0)
