// Sums of up to 32 neighbouring elements by warp shuffles: one group of 32 a warp at a time, V::GROUPS groups a warp whose
// loads are all in flight before the first shuffle. Groups are counted over all rows.
#include "opforge_cuda.cuh"

namespace opforge {

template <class V>
OPFORGE_DEVICE void warp_reduce_sum(const void* x, void* y, long long rows, long long columns, long long x_row,
                                    long long x_column, long long y_row, long long y_column) {
  using T = typename V::T;
  constexpr int kGroups = static_cast<int>(V::GROUPS);
  const long long per_row = (columns + 31) / 32;
  const long long total = rows * per_row;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const long long first = (static_cast<long long>(blockIdx.x) * (V::BLOCK / 32) + threadIdx.x / 32) * kGroups;
  float values[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const long long group = first + g;
    const long long row = group / per_row, column = (group - row * per_row) * 32 + lane;
    values[g] = group < total && column < columns
                    ? load_float(static_cast<const T*>(x) + row * x_row + column * x_column)
                    : 0.0f;
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const float sum = warp_sum<32>(values[g]);
    const long long group = first + g;
    if (lane == 0 && group < total) {
      const long long row = group / per_row;
      store_float(static_cast<T*>(y) + row * y_row + (group - row * per_row) * y_column, sum);
    }
  }
}

}  // namespace opforge
using opforge::warp_reduce_sum;
