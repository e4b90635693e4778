// Rotary embedding, turned back (opforge_rope.hpp).
#include "opforge_rope.hpp"

namespace opforge {
namespace cpu {

template <class V>
void rope_backward(const void* dy, const void* cos, const void* sin, const void* positions,
                   void* dx, int64_t size_l, int64_t size_h, int64_t size_d, int64_t size_p,
                   int64_t size_r, int64_t dy0, int64_t dy1, int64_t dy2, int64_t dy3, int64_t dx0,
                   int64_t dx1, int64_t dx2, int64_t dx3, int64_t cos0, int64_t cos1, int64_t sin0,
                   int64_t sin1, int64_t positions0, int64_t positions1, int64_t offset,
                   int32_t interleaved, int64_t begin, int64_t end) {
  const RopeCall<typename V::T> call{static_cast<const typename V::T*>(dy),
                                     static_cast<const float*>(cos),
                                     static_cast<const float*>(sin),
                                     static_cast<const int64_t*>(positions),
                                     static_cast<typename V::T*>(dx),
                                     size_l,
                                     size_h,
                                     size_d,
                                     size_p,
                                     size_r,
                                     {dy0, dy1, dy2, dy3},
                                     {dx0, dx1, dx2, dx3},
                                     {cos0, cos1},
                                     {sin0, sin1},
                                     {positions0, positions1},
                                     offset,
                                     interleaved != 0};
  run_rope(call, -1.0f, begin, end);
}

}  // namespace cpu
using cpu::rope_backward;
}  // namespace opforge
