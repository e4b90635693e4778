// Attention, a query a work item: scores of 128 keys at a time (f32 dot products, double across 512
// of D), their maximum and sum first, then the values, 512 columns at a time; probabilities times
// values are added in f32 over 128 keys, and in double across those. Scores are kept where they
// fit, else computed again.
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

inline constexpr float kLowest = -__builtin_inff();
inline constexpr int64_t kKeys = 128, kColumns = 512, kHeld = 4096;

template <class V>
struct Query {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  const T *q, *k, *v, *bias;
  const unsigned char* mask;
  int64_t q_step, k_row, k_step, v_row, v_step, mask_step, bias_step;
  int64_t keys, width;
  float scale;

  // Of key s; -inf where it takes no part.
  OPFORGE_INLINE_MEMBER float score(int64_t s) const {
    if (mask != nullptr && mask[s * mask_step] == 0) return kLowest;
    const T* key = k + s * k_row;
    double sum = 0;
    for (int64_t from = 0; from < width; from += kChunk) {
      const int64_t to = lesser(from + kChunk, width), full = from + (to - from) / kStep * kStep;
      Pair part = both(0.0f);
      for (int64_t i = from; i < full; i += kStep) part = products<true>(key, i, part);
      if (full < to) part = products<false>(key, full, part);
      sum += static_cast<double>(lane_sum(part));
    }
    sum *= static_cast<double>(scale);
    if (bias != nullptr) sum += static_cast<double>(to_f32(bias[s * bias_step]));
    return static_cast<float>(sum);
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER Pair products(const T* key, int64_t i, Pair part) const {
    const Step a = load_step<T, kContiguous, kFull>(q, q_step, i, width);
    const Step b = load_step<T, kContiguous, kFull>(key, k_step, i, width);
    return fma(a.high, b.high, fma(a.low, b.low, part));
  }
  // sum[0 .. count) += p v[s] of the columns from `from` on, in the lane order of T.
  OPFORGE_INLINE_MEMBER void add_value(int64_t s, float p, int64_t from, int64_t to,
                                       float* sum) const {
    const T* value = v + s * v_row;
    const Pair factor = both(p);
    int64_t i = from;
    for (; i + kStep <= to; i += kStep, sum += kStep)
      add_step(load_step<T, kContiguous, true>(value, v_step, i, width), factor, sum);
    if (i < to) add_step(load_step<T, kContiguous, false>(value, v_step, i, width), factor, sum);
  }
  OPFORGE_INLINE_MEMBER static void add_step(Step v, Pair factor, float* sum) {
    store(sum, fma(v.low, factor, load(sum)));
    store(sum + kPair, fma(v.high, factor, load(sum + kPair)));
  }
};

OPFORGE_INLINE float exponential(float x) { return hn::GetLane(exp(set(x))); }

template <class V>
struct Scores {
  const Query<V>& query;
  float held[kHeld];
  explicit Scores(const Query<V>& q) : query(q) {}
  float at(int64_t s) const { return query.keys <= kHeld ? held[s] : query.score(s); }
};

template <class V>
OPFORGE_INLINE void attend(const Query<V>& query, typename V::T* y, int64_t y_step) {
  using T = typename V::T;
  Scores<V> scores(query);
  float max = kLowest;
  for (int64_t s = 0; s < query.keys; s++) {
    const float score = query.score(s);
    if (query.keys <= kHeld) scores.held[s] = score;
    if (score > max || score != score) max = score;
    if (max != max) break;  // NaN: so is the whole row
  }
  double sum = 0;
  for (int64_t from = 0; from < query.keys && max == max; from += kKeys) {
    float part = 0;
    for (int64_t s = from; s < lesser(from + kKeys, query.keys); s++) {
      const float score = scores.at(s);
      if (score != kLowest) part += exponential(score - max);
    }
    sum += static_cast<double>(part);
  }
  const double factor = max != max ? __builtin_nan("") : sum == 0 ? 0 : 1 / sum;
  for (int64_t from = 0; from < query.width; from += kColumns) {
    const int64_t to = lesser(from + kColumns, query.width);
    alignas(64) float parts[kColumns];
    alignas(64) double sums[kColumns] = {};
    for (int64_t first = 0; first < query.keys && max == max; first += kKeys) {
      for (float& part : parts) part = 0;
      for (int64_t s = first; s < lesser(first + kKeys, query.keys); s++) {
        const float score = scores.at(s);
        if (score != kLowest) query.add_value(s, exponential(score - max), from, to, parts);
      }
      for (int64_t i = 0; i < kColumns; i++) sums[i] += static_cast<double>(parts[i]);
    }
    for (int64_t i = 0; i < to - from; i += kPair) {
      alignas(64) float lanes[kPair];
      for (int64_t c = 0; c < kPair; c++) lanes[c] = static_cast<float>(sums[i + c] * factor);
      alignas(64) T out[kPair];
      store(out, {hn::Load(kF32, lanes), hn::Load(kF32, lanes + kLanes)});
      for (int64_t c = 0; c < lesser(kPair, to - from - i); c++)
        y[(from + i + c) * y_step] = out[c];
    }
  }
}

template <class V>
void attention(const void* q_data, const void* k_data, const void* v_data, const void* mask_data,
               const void* bias_data, void* y_data, int64_t heads, int64_t group, int64_t queries,
               int64_t keys, int64_t width, int64_t q0, int64_t q1, int64_t q2, int64_t q3,
               int64_t k0, int64_t k1, int64_t k2, int64_t k3, int64_t v0, int64_t v1, int64_t v2,
               int64_t v3, int64_t mask0, int64_t mask1, int64_t mask2, int64_t mask3,
               int64_t bias0, int64_t bias1, int64_t bias2, int64_t bias3, int64_t y0, int64_t y1,
               int64_t y2, int64_t y3, float scale, int32_t causal, int64_t begin, int64_t end) {
  using T = typename V::T;
  for (int64_t item = begin; item < end; item++) {
    const int64_t l = item % queries, head = item / queries, h = head % heads, b = head / heads;
    Query<V> query;
    query.q = static_cast<const T*>(q_data) + b * q0 + h * q1 + l * q2;
    query.k = static_cast<const T*>(k_data) + b * k0 + h / group * k1;
    query.v = static_cast<const T*>(v_data) + b * v0 + h / group * v1;
    query.mask = static_cast<const unsigned char*>(mask_data);
    if (query.mask != nullptr) query.mask += b * mask0 + h * mask1 + l * mask2;
    query.bias = static_cast<const T*>(bias_data);
    if (query.bias != nullptr) query.bias += b * bias0 + h * bias1 + l * bias2;
    query.q_step = q3, query.k_row = k2, query.k_step = k3, query.v_row = v2, query.v_step = v3;
    query.mask_step = mask3, query.bias_step = bias3;
    const int64_t seen = causal == 0 ? keys : l + 1 + (causal == 1 ? keys - queries : 0);
    query.keys = seen < 0 ? 0 : lesser(seen, keys);
    query.width = width;
    query.scale = scale;
    attend(query, static_cast<T*>(y_data) + b * y0 + h * y1 + l * y2, y3);
  }
}

}  // namespace cpu
using cpu::attention;
}  // namespace opforge
