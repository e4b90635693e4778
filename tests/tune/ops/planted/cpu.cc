// y = 2 x, after WORK dependent multiplications a row: time in proportion to WORK, whatever the memory does. TWIN changes
// nothing but the code key.
#include "opforge_types.hpp"

template <class V>
void planted(const void* x, void* y, int64_t columns, int64_t begin, int64_t end) {
  const float* in = static_cast<const float*>(x);
  float* out = static_cast<float*>(y);
  static_assert(V::TWIN >= 0);
  for (int64_t row = begin; row < end; ++row) {
    float chain = 1;
    for (long long i = 0; i < V::WORK; ++i) {
      chain *= 0.999f;
      __asm__ volatile("" : "+x"(chain));
    }
    for (int64_t column = 0; column < columns; ++column) out[row * columns + column] = 2 * in[row * columns + column];
  }
}
