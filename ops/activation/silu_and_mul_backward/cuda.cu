// The gradient of silu(gate) * up over rows of 2 N elements (opforge_elementwise.cuh,
// opforge_activations.cuh).
#include "opforge_activations.cuh"
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void silu_and_mul_backward(const void* dy, const void* x, void* dx, long long rows,
                                          long long columns, long long dy_row, long long dy_column,
                                          long long x_row, long long x_column, long long dx_row,
                                          long long dx_column) {
  using T = typename V::T;
  const T* gate = static_cast<const T*>(x);
  T* out = static_cast<T*>(dx);
  const Strided<const T> in[3] = {{static_cast<const T*>(dy), dy_row, dy_column},
                                  {gate, x_row, x_column},
                                  {gate + columns * x_column, x_row, x_column}};
  const Strided<T> outputs[2] = {{out, dx_row, dx_column},
                                 {out + columns * dx_column, dx_row, dx_column}};
  run_maps<V>(in, outputs, rows, columns, [](const float(&v)[3], float(&d)[2]) {
    d[0] = v[0] * silu_slope(v[1]) * v[2];
    d[1] = v[0] * silu(v[1]);
  });
}

}  // namespace opforge
using opforge::silu_and_mul_backward;
