// max(x, 0), element by element (opforge_elementwise.hpp).
#include "opforge_activations.hpp"
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V>
void relu(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_row, int64_t x_column,
          int64_t y_row, int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const Strided<const T> in[1] = {{static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns, begin, end,
             [](const Pair(&v)[1]) { return relu(v[0]); });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::relu;
