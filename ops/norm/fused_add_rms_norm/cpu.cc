// RMS normalisation of x + residual, which replaces the residual (opforge_norms.hpp).
#include "opforge_norms.hpp"

namespace opforge {
namespace cpu {

template <class V>
void fused_add_rms_norm(const void* x, void* residual, const void* w, void* y, int64_t columns,
                        float eps, int64_t w_stride, int64_t x_row, int64_t x_column,
                        int64_t residual_row, int64_t residual_column, int64_t y_row,
                        int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  RmsRows<V, true, false> rows;
  rows.sources = {static_cast<const T*>(x),  x_row,        x_column,
                  static_cast<T*>(residual), residual_row, residual_column};
  rows.w = static_cast<const typename V::W*>(w);
  rows.y = static_cast<T*>(y);
  rows.eps = eps;
  rows.columns = columns;
  rows.w_stride = w_stride;

  rows.y_row = y_row;
  rows.y_column = y_column;
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::fused_add_rms_norm;
}  // namespace opforge
