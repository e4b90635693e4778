// silu(gate) * up over rows of 2 N elements (opforge_elementwise.cuh, opforge_activations.cuh).
#include "opforge_activations.cuh"
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void silu_and_mul(const void* x, void* y, long long rows, long long columns,
                                 long long x_row, long long x_column, long long y_row,
                                 long long y_column) {
  using T = typename V::T;
  const T* gate = static_cast<const T*>(x);
  const Strided<const T> in[2] = {{gate, x_row, x_column},
                                  {gate + columns * x_column, x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns,
             [](const float(&v)[2]) { return silu(v[0]) * v[1]; });
}

}  // namespace opforge
using opforge::silu_and_mul;
