// y = x * min(max(x + 3, 0), 6) / 6, element by element (opforge_elementwise.hpp), in f32 and rounded once to T.
#include "opforge_elementwise.hpp"

namespace opforge {
namespace cpu {

// By comparisons, so that NaN stays NaN. x itself from 3 on: nothing there to round or to overflow.
OPFORGE_INLINE F hardswish(F x) {
  const F zero = set(0.0f), three = set(3.0f);
  F gate = hn::Add(x, three);
  gate = hn::IfThenElse(hn::Lt(gate, zero), zero, gate);
  const F inside = hn::Mul(hn::Mul(x, gate), set(1.0f / 6.0f));
  return hn::IfThenElse(hn::Ge(x, three), x, inside);
}

template <class V>
void hardswish(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_row, int64_t x_column, int64_t y_row,
               int64_t y_column, int64_t begin, int64_t end) {
  using T = typename V::T;
  const Strided<const T> in[1] = {{static_cast<const T*>(x), x_row, x_column}};
  run_map<V>(in, Strided<T>{static_cast<T*>(y), y_row, y_column}, rows, columns, begin, end,
             [](const Pair(&v)[1]) { return Pair{hardswish(v[0].a), hardswish(v[0].b)}; });
}

}  // namespace cpu
}  // namespace opforge
using opforge::cpu::hardswish;
