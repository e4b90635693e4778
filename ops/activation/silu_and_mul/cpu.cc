// silu(gate) * up over rows of 2 N elements (opforge_elementwise.hpp, opforge_activations.hpp).
#include "opforge_activations.hpp"
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V>
void silu_and_mul(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_row,
                  int64_t x_column, int64_t y_row, int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const T* gate = static_cast<const T*>(x);
  const Strided<const T> in[2] = {{gate, x_row, x_column},
                                  {gate + columns * x_column, x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns, begin, end,
             [](const Pair(&v)[2]) { return mul(silu(v[0]), v[1]); });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::silu_and_mul;
