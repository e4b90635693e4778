// RMS normalisation of x + residual, which replaces the residual (opforge_norms.cuh).
#include "opforge_norms.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void fused_add_rms_norm(const void* x, void* residual, const void* w, void* y,
                                       long long rows, long long columns, float eps,
                                       long long w_stride, long long x_row, long long x_column,
                                       long long residual_row, long long residual_column,
                                       long long y_row, long long y_column) {
  using T = typename V::T;
  using W = typename V::W;
  using View = RowView<V, const T>;
  const RowSumView<V, T> in(
      View(static_cast<const T*>(x), x_row, x_column, rows, columns),
      View(static_cast<const T*>(residual), residual_row, residual_column, rows, columns));
  const RowView<V, const W> weights(static_cast<const W*>(w), 0, w_stride, rows, columns);
  const RowView<V, T> out(static_cast<T*>(y), y_row, y_column, rows, columns);
  const RowResidual<V> sum{
      RowView<V, T>(static_cast<T*>(residual), residual_row, residual_column, rows, columns)};
  normalise_rms<V, false, RowSumChunk<V, T>>(in, weights, out, sum, columns, eps);
}

}  // namespace opforge
