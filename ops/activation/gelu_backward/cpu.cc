// Gradient of gelu, element by element (opforge_elementwise.hpp, opforge_activations.hpp).
#include "opforge_activations.hpp"
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V>
void gelu_backward(const void* dy, const void* x, void* dx, int64_t rows, int64_t columns,
                   int64_t dy_row, int64_t dy_column, int64_t x_row, int64_t x_column,
                   int64_t dx_row, int64_t dx_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const Strided<const T> in[2] = {{static_cast<const T*>(dy), dy_row, dy_column},
                                  {static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(dx), dx_row, dx_column}, rows, columns, begin, end,
             [](const Pair(&v)[2]) { return mul(v[0], gelu_slope<V::form>(v[1])); });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::gelu_backward;
