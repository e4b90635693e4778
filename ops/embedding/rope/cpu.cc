// Rotary embedding (opforge_rope.hpp).
#include "opforge_rope.hpp"

namespace opforge {
namespace cpu {

template <class V>
void rope(const void* x, const void* cos, const void* sin, const void* positions, void* y,
          int64_t size_l, int64_t size_h, int64_t size_d, int64_t size_p, int64_t size_r,
          int64_t x0, int64_t x1, int64_t x2, int64_t x3, int64_t y0, int64_t y1, int64_t y2,
          int64_t y3, int64_t cos0, int64_t cos1, int64_t sin0, int64_t sin1, int64_t positions0,
          int64_t positions1, int64_t offset, int32_t interleaved, int64_t begin, int64_t end) {
  const RopeCall<typename V::T> call{static_cast<const typename V::T*>(x),
                                     static_cast<const float*>(cos),
                                     static_cast<const float*>(sin),
                                     static_cast<const int64_t*>(positions),
                                     static_cast<typename V::T*>(y),
                                     size_l,
                                     size_h,
                                     size_d,
                                     size_p,
                                     size_r,
                                     {x0, x1, x2, x3},
                                     {y0, y1, y2, y3},
                                     {cos0, cos1},
                                     {sin0, sin1},
                                     {positions0, positions1},
                                     offset,
                                     interleaved != 0};
  run_rope(call, 1.0f, begin, end);
}

}  // namespace cpu
using cpu::rope;
}  // namespace opforge
