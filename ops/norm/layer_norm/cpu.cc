// Layer normalisation (opforge_norms.hpp).
#include "opforge_norms.hpp"

namespace opforge {
namespace cpu {

template <class V>
void layer_norm(const void* x, const void* w, const void* b, void* y, int64_t columns, float eps,
                int64_t w_stride, int64_t b_stride, int64_t x_row_stride, int64_t x_column_stride,
                int64_t y_row_stride, int64_t y_column_stride, int64_t begin, int64_t end) {
  LayerRows<V, false> rows;
  rows.w = static_cast<const typename V::W*>(w);
  rows.b = static_cast<const typename V::W*>(b);
  rows.y = static_cast<typename V::T*>(y);
  rows.eps = eps;
  rows.columns = columns;
  rows.w_stride = w_stride;
  rows.b_stride = b_stride;
  rows.sources = {
      static_cast<const typename V::T*>(x), x_row_stride, x_column_stride, nullptr, 0, 0};
  rows.y_row = y_row_stride;
  rows.y_column = y_column_stride;
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::layer_norm;
}  // namespace opforge
