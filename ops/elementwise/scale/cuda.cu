// y = alpha * x, element by element (opforge_elementwise.cuh). The product is taken in f32 and rounded once to T.
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void scale(const void* x, void* y, long long rows, long long columns, long long x_row,
                          long long x_column, long long y_row, long long y_column, float alpha) {
  using T = typename V::T;
  const Strided<const T> in[1] = {{static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns,
             [=](const float(&v)[1]) { return v[0] * alpha; });
}

}  // namespace opforge
using opforge::scale;
