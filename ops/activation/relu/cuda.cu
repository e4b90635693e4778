// max(x, 0), element by element (opforge_elementwise.cuh).
#include "opforge_activations.cuh"
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void relu(const void* x, void* y, long long rows, long long columns, long long x_row,
                         long long x_column, long long y_row, long long y_column) {
  using T = typename V::T;
  const Strided<const T> in[1] = {{static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns,
             [](const float(&v)[1]) { return relu(v[0]); });
}

}  // namespace opforge
using opforge::relu;
