// Rotary embedding, turned back (opforge_rope.cuh).
#include "opforge_rope.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void rope_backward(const void* dy, const void* cos, const void* sin,
                                  const void* positions, void* dx, long long size_b,
                                  long long size_l, long long size_h, long long size_d,
                                  long long size_p, long long size_r, long long dy0, long long dy1,
                                  long long dy2, long long dy3, long long dx0, long long dx1,
                                  long long dx2, long long dx3, long long cos0, long long cos1,
                                  long long sin0, long long sin1, long long positions0,
                                  long long positions1, long long offset, int interleaved) {
  const RopeCall<typename V::T> call{static_cast<const typename V::T*>(dy),
                                     static_cast<const float*>(cos),
                                     static_cast<const float*>(sin),
                                     static_cast<const long long*>(positions),
                                     static_cast<typename V::T*>(dx),
                                     size_b,
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
  run_rope(call, -1.0f);
}

}  // namespace opforge
