// Cross entropy: a block of 256 threads a row, whatever its length. The row is read twice: for its
// maximum, then for the sums of exp(x - maximum) and of x, which every thread keeps in two floats
// (LongSum). The order depends on the row's length alone.
#include "opforge_activations.cuh"
#include "opforge_sums.cuh"

namespace opforge {

constexpr int kThreads = 256;

template <class V>
OPFORGE_DEVICE void cross_entropy(const void* x_data, const void* targets, void* lses, void* losses,
                                  long long columns, long long x_row, long long x_column,
                                  long long target_row, long long lse_row, long long loss_row,
                                  long long ignore_index, float label_smoothing, float z_loss) {
  using T = typename V::T;
  using Threads = Block<kThreads>;
  __shared__ typename Threads::template Scratch<float> scratch[3];
  const long long row = blockIdx.x, step = V::LAYOUT == 1 ? 1 : x_column;
  const T* x = static_cast<const T*>(x_data) + row * x_row;

  float max = -infinity();
#pragma unroll 4
  for (long long i = threadIdx.x; i < columns; i += kThreads)
    max = nan_max(max, load_float<Cache::kCached>(x + i * step));
  max = Threads::max(max, scratch[0]);
  const float base = max == -infinity() ? 0.0f : max;  // -inf - -inf would be NaN
  LongSum exponentials{}, values{};
#pragma unroll 4
  for (long long i = threadIdx.x; i < columns; i += kThreads) {
    const float v = load_float<Cache::kCached>(x + i * step);
    exponentials.add(natural_exp(v - base));
    values.add(v);
  }
  const float sum = Threads::sum(exponentials.total, scratch[1]);
  const float mean = Threads::sum(values.total, scratch[2]) / static_cast<float>(columns);
  if (threadIdx.x != 0) return;

  const float lse = base + logf(sum);
  const long long target = static_cast<const long long*>(targets)[row * target_row];
  float loss = quiet_nan();
  if (target == ignore_index) {
    loss = 0.0f;
  } else if (target >= 0 && target < columns) {
    // Differences of what is as large as the logits: in double, so that they do not round again.
    double exact = lse;
    if (label_smoothing < 1.0f)
      exact -= (1.0 - label_smoothing) * load_float<Cache::kCached>(x + target * step);
    if (label_smoothing > 0.0f) exact -= static_cast<double>(label_smoothing) * mean;
    if (z_loss > 0.0f) exact += static_cast<double>(z_loss) * lse * lse;
    loss = static_cast<float>(exact);
  }
  static_cast<float*>(lses)[row * lse_row] = lse;
  static_cast<float*>(losses)[row * loss_row] = loss;
}

}  // namespace opforge
