// Gradient of relu, element by element (opforge_elementwise.cuh, opforge_activations.cuh).
#include "opforge_activations.cuh"
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void relu_backward(const void* dy, const void* x, void* dx, long long rows,
                                  long long columns, long long dy_row, long long dy_column,
                                  long long x_row, long long x_column, long long dx_row,
                                  long long dx_column) {
  using T = typename V::T;
  const Strided<const T> in[2] = {{static_cast<const T*>(dy), dy_row, dy_column},
                                  {static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(dx), dx_row, dx_column}, rows, columns,
             [](const float(&v)[2]) { return relu_gradient(v[0], v[1]); });
}

}  // namespace opforge
using opforge::relu_backward;
