// y = a + b, element by element (opforge_elementwise.cuh). The sum is taken in f32 and rounded once to T.
#include "opforge_elementwise.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void vector_add(const void* a, const void* b, void* y, long long rows, long long columns,
                               long long a_row, long long a_column, long long b_row, long long b_column,
                               long long y_row, long long y_column) {
  using T = typename V::T;
  const Strided<const T> in[2] = {{static_cast<const T*>(a), a_row, a_column}, {static_cast<const T*>(b), b_row, b_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns,
             [](const float(&v)[2]) { return v[0] + v[1]; });
}

}  // namespace opforge
using opforge::vector_add;
