// RMS normalisation (opforge_norms.cuh).
#include "opforge_norms.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void rms_norm(const void* x, const void* w, void* y, long long rows,
                             long long columns, float eps, long long w_stride,
                             long long x_row_stride, long long x_column_stride,
                             long long y_row_stride, long long y_column_stride) {
  using T = typename V::T;
  using W = typename V::W;
  const RowView<V, const T> in(static_cast<const T*>(x), x_row_stride, x_column_stride, rows,
                               columns);
  const RowView<V, const W> weights(static_cast<const W*>(w), 0, w_stride, rows, columns);
  const RowView<V, T> out(static_cast<T*>(y), y_row_stride, y_column_stride, rows, columns);
  normalise_rms<V, V::zero_centered, RowChunk<V, T>>(in, weights, out, NoResidual(), columns, eps);
}

}  // namespace opforge
