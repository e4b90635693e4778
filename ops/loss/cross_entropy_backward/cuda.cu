// The gradient of the cross entropy: a block of 256 threads a row, an element a thread at once.
#include "opforge_activations.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void cross_entropy_backward(const void* x_data, const void* targets,
                                           const void* lses, const void* dlosses, void* dx_data,
                                           long long columns, long long x_row, long long x_column,
                                           long long target_row, long long lse_row,
                                           long long dloss_row, long long dx_row,
                                           long long dx_column, long long ignore_index,
                                           float label_smoothing, float z_loss) {
  using T = typename V::T;
  const long long row = blockIdx.x;
  const long long step = V::LAYOUT == 1 ? 1 : x_column, out_step = V::LAYOUT == 1 ? 1 : dx_column;
  const T* x = static_cast<const T*>(x_data) + row * x_row;
  T* dx = static_cast<T*>(dx_data) + row * dx_row;
  const long long target = static_cast<const long long*>(targets)[row * target_row];
  const float lse = static_cast<const float*>(lses)[row * lse_row];
  const float dloss = static_cast<const float*>(dlosses)[row * dloss_row];
  const bool ignored = target == ignore_index, inside = target >= 0 && target < columns;
  const float scale = z_loss > 0.0f ? 1.0f + 2.0f * z_loss * lse : 1.0f;
  const float taken = label_smoothing / static_cast<float>(columns);
#pragma unroll 4
  for (long long i = threadIdx.x; i < columns; i += 256) {
    float v = load_float<Cache::kCached>(x + i * step);
    // Where exp leaves f32's range, dloss may bring it back, and what is taken off is nothing
    // beside it.
    const float e = natural_exp((v - lse) * 0.5f), p = e * scale * e;
    const float all = i == target ? taken + (1.0f - label_smoothing) : taken;
    v = fabsf(p) < infinity() ? (p - all) * dloss : e * (dloss * scale) * e;
    store_float<Cache::kCached>(dx + i * out_step, ignored ? 0.0f : inside ? v : quiet_nan());
  }
}

}  // namespace opforge
