// Row kernels in OpenCL C: a work-group has a row, its work-items take vectors of eight columns in
// turn, and sums are in double (cl_khr_fp64): they neither overflow nor cancel, and few roundings
// remain. Work-item t has vectors t, t + V_BLOCK, ...; lanes are added after that, then work-items
// by a tree: the order depends on the number of columns alone.
//
// V_LAYOUT 1: columns are contiguous; 0: any strides, zero and negative ones too.
#pragma once

#include "opforge_opencl.h"

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

// T_row8(row, vector, columns, stride, fill): columns 8 vector to 8 vector + 7; those that do not
// exist are `fill`. T_put_row8(...): those that exist.
#define OPFORGE_ROWS(T)                                                                       \
  static inline float8 T##_row8(global const T* row, long vector, long columns, long stride,  \
                                float fill) {                                                 \
    if (V_LAYOUT == 1 && (vector + 1) * 8 <= columns) return T##_LOAD8(row, vector);          \
    float v[8];                                                                               \
    for (int k = 0; k < 8; ++k) {                                                             \
      const long i = vector * 8 + k;                                                          \
      v[k] = i < columns ? T##_LOAD(row, i * stride) : fill;                                  \
    }                                                                                         \
    return vload8(0, v);                                                                      \
  }                                                                                           \
  static inline void T##_put_row8(global T* row, long vector, long columns, long stride,      \
                                  float8 value) {                                             \
    if (V_LAYOUT == 1 && (vector + 1) * 8 <= columns) {                                       \
      T##_STORE8(row, vector, value);                                                         \
      return;                                                                                 \
    }                                                                                         \
    float v[8];                                                                               \
    vstore8(value, 0, v);                                                                     \
    for (int k = 0; k < 8 && vector * 8 + k < columns; ++k)                                   \
      T##_STORE(row, (vector * 8 + k) * stride, v[k]);                                        \
  }

// The vectors of a work-item.
#define OPFORGE_EACH_VECTOR(v, columns) \
  (long v = (long)get_local_id(0); v * 8 < (columns); v += V_BLOCK)

static inline double opforge_lanes(double8 v) {
  const double4 a = v.lo + v.hi;
  const double2 b = a.lo + a.hi;
  return b.x + b.y;
}

// Over the work-group, for all its work-items; `shared` has V_BLOCK elements.
static inline double opforge_group_sum(double value, local double* shared) {
  const int t = (int)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);  // whoever reads an earlier result has done so
  shared[t] = value;
  for (int step = V_BLOCK / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < step) shared[t] += shared[t + step];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}
static inline double opforge_group_max(double value, local double* shared) {
  const int t = (int)get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[t] = value;
  for (int step = V_BLOCK / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < step) shared[t] = fmax(shared[t], shared[t + step]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}
