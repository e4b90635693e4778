// The gradient of silu(gate) * up over rows of 2 N elements (opforge_elementwise.hpp,
// opforge_activations.hpp).
#include "opforge_activations.hpp"
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V>
void silu_and_mul_backward(const void* dy, const void* x, void* dx, int64_t rows, int64_t columns,
                           int64_t dy_row, int64_t dy_column, int64_t x_row, int64_t x_column,
                           int64_t dx_row, int64_t dx_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const T* gate = static_cast<const T*>(x);
  T* out = static_cast<T*>(dx);
  const Strided<const T> in[3] = {{static_cast<const T*>(dy), dy_row, dy_column},
                                  {gate, x_row, x_column},
                                  {gate + columns * x_column, x_row, x_column}};
  const Strided<T> outputs[2] = {{out, dx_row, dx_column},
                                 {out + columns * dx_column, dx_row, dx_column}};
  run_maps<V>(in, outputs, rows, columns, begin, end, [](const Pair(&v)[3], Pair(&d)[2]) {
    d[0] = mul(mul(v[0], silu_slope(v[1])), v[2]);
    d[1] = mul(v[0], silu(v[1]));
  });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::silu_and_mul_backward;
