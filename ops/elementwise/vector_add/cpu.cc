// y = a + b, element by element (opforge_elementwise.hpp). The sum is taken in f32 and rounded once to T.
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

template <class V>
void vector_add(const void* a, const void* b, void* y, int64_t rows, int64_t columns, int64_t a_row, int64_t a_column,
                int64_t b_row, int64_t b_column, int64_t y_row, int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const Strided<const T> in[2] = {{static_cast<const T*>(a), a_row, a_column}, {static_cast<const T*>(b), b_row, b_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns, begin, end,
             [](const Pair(&v)[2]) { return add(v[0], v[1]); });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::vector_add;
