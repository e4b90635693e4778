// Rotary embedding (opforge_rope.cuh).
#include "opforge_rope.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void rope(const void* x, const void* cos, const void* sin, const void* positions,
                         void* y, long long size_b, long long size_l, long long size_h,
                         long long size_d, long long size_p, long long size_r, long long x0,
                         long long x1, long long x2, long long x3, long long y0, long long y1,
                         long long y2, long long y3, long long cos0, long long cos1, long long sin0,
                         long long sin1, long long positions0, long long positions1,
                         long long offset, int interleaved) {
  const RopeCall<typename V::T> call{static_cast<const typename V::T*>(x),
                                     static_cast<const float*>(cos),
                                     static_cast<const float*>(sin),
                                     static_cast<const long long*>(positions),
                                     static_cast<typename V::T*>(y),
                                     size_b,
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
  run_rope(call, 1.0f);
}

}  // namespace opforge
