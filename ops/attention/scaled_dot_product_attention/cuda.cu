// Attention: a block of 128 threads a query. Scores of 128 keys at a time, one a thread; first
// their maximum and sum, then, for 512 columns at a time (four a thread), probabilities times
// values. Dot products go over 32 of D in f32, and sums over keys likewise; what is longer is kept
// in two floats (LongSum). The order depends on the numbers of keys and columns alone.
#include "opforge_activations.cuh"
#include "opforge_sums.cuh"

namespace opforge {

constexpr int kThreads = 128, kColumns = 4, kInFloat = 32;

template <class V>
struct Query {
  using T = typename V::T;
  const T *q, *k, *v, *bias;
  const unsigned char* mask;
  long long q_step, k_row, k_step, v_row, v_step, mask_step, bias_step;
  long long keys, width;
  float scale;

  // Of key s; -inf where it takes no part.
  OPFORGE_DEVICE float score(long long s) const {
    if (s >= keys || (mask != nullptr && mask[s * mask_step] == 0)) return -infinity();
    const T* key = k + s * k_row;
    LongSum sum{};
    for (long long from = 0; from < width; from += kInFloat) {
      const long long to = smaller(from + kInFloat, width);
      float part = 0.0f;
      for (long long i = from; i < to; ++i)
        part = fmaf(load_float<Cache::kCached>(q + i * q_step),
                    load_float<Cache::kCached>(key + i * k_step), part);
      sum.add(part);
    }
    float score = sum.total * scale;
    if (bias != nullptr) score += load_float<Cache::kCached>(bias + s * bias_step);
    return score;
  }
};

template <class V>
OPFORGE_DEVICE void attend(const Query<V>& query, typename V::T* y, long long y_step) {
  using Threads = Block<kThreads>;
  __shared__ typename Threads::template Scratch<float> scratch[2];
  __shared__ float scores[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  float max = -infinity();
  for (long long from = 0; from < query.keys; from += kThreads)
    max = nan_max(max, query.score(from + thread));
  max = Threads::max(max, scratch[0]);
  LongSum own{};
  for (long long from = 0; from < query.keys; from += kThreads) {
    const float score = query.score(from + thread);
    if (score != -infinity()) own.add(natural_exp(score - max));
  }
  const float sum = Threads::sum(own.total, scratch[1]);

  for (long long from = 0; from < query.width; from += kThreads * kColumns) {
    LongSum sums[kColumns] = {};
    for (long long first = 0; first < query.keys; first += kThreads) {
      __syncthreads();
      scores[thread] = query.score(first + thread);
      __syncthreads();
      const int count = static_cast<int>(smaller<long long>(kThreads, query.keys - first));
      for (int begin = 0; begin < count; begin += kInFloat) {
        float parts[kColumns] = {};
        for (int s = begin; s < smaller(begin + kInFloat, count); ++s) {
          const float score = scores[s];
          if (score == -infinity()) continue;
          const float p = natural_exp(score - max);
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const long long column = from + c * kThreads + thread;
            if (column < query.width)
              parts[c] = fmaf(p,
                              load_float<Cache::kCached>(query.v + (first + s) * query.v_row +
                                                         column * query.v_step),
                              parts[c]);
          }
        }
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sums[c].add(parts[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const long long column = from + c * kThreads + thread;
      // Nothing takes part: zeros.
      if (column < query.width)
        store_float<Cache::kCached>(y + column * y_step, sum == 0.0f ? 0.0f : sums[c].total / sum);
    }
  }
}

template <class V>
OPFORGE_DEVICE void attention(const void* q_data, const void* k_data, const void* v_data,
                              const void* mask_data, const void* bias_data, void* y_data,
                              long long heads, long long group, long long queries, long long keys,
                              long long width, long long q0, long long q1, long long q2,
                              long long q3, long long k0, long long k1, long long k2, long long k3,
                              long long v0, long long v1, long long v2, long long v3,
                              long long mask0, long long mask1, long long mask2, long long mask3,
                              long long bias0, long long bias1, long long bias2, long long bias3,
                              long long y0, long long y1, long long y2, long long y3, float scale,
                              int causal) {
  using T = typename V::T;
  constexpr bool kContiguous = V::LAYOUT == 1;
  const long long item = blockIdx.x, l = item % queries, head = item / queries, h = head % heads;
  const long long b = head / heads;
  Query<V> query;
  query.q = static_cast<const T*>(q_data) + b * q0 + h * q1 + l * q2;
  query.k = static_cast<const T*>(k_data) + b * k0 + h / group * k1;
  query.v = static_cast<const T*>(v_data) + b * v0 + h / group * v1;
  query.mask = static_cast<const unsigned char*>(mask_data);
  if (query.mask != nullptr) query.mask += b * mask0 + h * mask1 + l * mask2;
  query.bias = static_cast<const T*>(bias_data);
  if (query.bias != nullptr) query.bias += b * bias0 + h * bias1 + l * bias2;
  query.q_step = kContiguous ? 1 : q3, query.k_step = kContiguous ? 1 : k3;
  query.v_step = kContiguous ? 1 : v3, query.k_row = k2, query.v_row = v2;
  query.mask_step = mask3, query.bias_step = bias3;
  const long long seen = causal == 0 ? keys : l + 1 + (causal == 1 ? keys - queries : 0);
  query.keys = seen < 0 ? 0 : smaller(seen, keys);
  query.width = width;
  query.scale = scale;
  attend(query, static_cast<T*>(y_data) + b * y0 + h * y1 + l * y2, kContiguous ? 1 : y3);
}

}  // namespace opforge
