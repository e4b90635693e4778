// Softmax over the last dim. A row is read in chunks that stay in the L1: first their maximum, then
// exp(x - running maximum) and its sum; the maxima and sums of chunks are merged once a row.
// Writing scales the exponentials by one factor a chunk, while the next row is read
// (opforge_rows.hpp). Source: the project's own measurements of row pipelines.
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

inline constexpr float kLowest = -__builtin_inff();

// 2^26 e^x for x <= 0, and NaN for NaN. The factor keeps all of the f32 subnormals of e^x normal
// here; what it takes from below 2^-152 is the same as 0 after the factor is taken off. Minimax
// polynomials of 2^f on [-1/2, 1/2], relative error 2^-23.6 for f32, 2^-18.5 for f16 and 2^-13.7
// for bf16: far below half a last bit of each.
template <class T>
OPFORGE_INLINE F exponential(F x) {
  const F t =
      hn::Max(set(-152.0f),
              hn::Mul(x, set(1.44269504f)));  // the second operand is returned where it is NaN
  const F magic =
      set(12582912.0f + 127 +
          26);  // 1.5 * 2^23 rounds to an integer; its last bits get the biased exponent
  const F rounded = hn::Add(t, magic), f = hn::Sub(t, hn::Sub(rounded, magic));
  const F power = hn::BitCast(kF32, hn::ShiftLeft<23>(hn::BitCast(kU32, rounded)));
  F p;
  if constexpr (is_same<T, float>) {
    p = hn::MulAdd(set(0.0013276472f), f, set(0.00967554133f));
    p = hn::MulAdd(p, f, set(0.0555071327f));
    p = hn::MulAdd(p, f, set(0.240221197f));
    p = hn::MulAdd(p, f, set(0.693146967f));
    p = hn::MulAdd(p, f, set(1.00000007f));
  } else if constexpr (is_same<T, f16>) {
    p = hn::MulAdd(set(0.00957010191f), f, set(0.0559178603f));
    p = hn::MulAdd(p, f, set(0.240247448f));
    p = hn::MulAdd(p, f, set(0.693121815f));
    p = hn::MulAdd(p, f, set(0.999999261f));
  } else {
    p = hn::MulAdd(set(0.0551716691f), f, set(0.242611122f));
    p = hn::MulAdd(p, f, set(0.693260985f));
    p = hn::MulAdd(p, f, set(0.999928074f));
  }
  return hn::Mul(p, power);
}
template <class T>
OPFORGE_INLINE Pair exponential(Pair x) {
  return {exponential<T>(x.a), exponential<T>(x.b)};
}

template <class V>
struct SoftmaxRows {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  static constexpr int64_t kHeld =
      16384;  // columns whose exponentials are kept; longer rows compute them twice
  static constexpr int64_t kSlots = 2048;  // pieces of a row with a maximum and a sum of their own

  // Two rows are in work: one is read, the other written.
  struct State {
    const T* x;
    int64_t slots;
    float max, scale;                // of the row: maximum, 2^-52 / sum
    alignas(64) float base[kSlots];  // what was subtracted in a slot, then 2^26 exp(base - max)
    alignas(64) float held[kHeld];   // 2^26 exp(x - base)
  };

  const T* x;
  T* y;
  int64_t columns, x_row, x_column, y_row, y_column;
  int64_t chunks_per_slot;
  State states[2];
  State *in = &states[0], *out = &states[1];
  alignas(64) float sums[kSlots];
  Pair max_low, max_high;
  int64_t chunk;
  T* target;

  // exp is taken of x - base: base is the maximum, but 0 where there is nothing above -inf (-inf -
  // -inf would be NaN).
  OPFORGE_INLINE float base_of(float max) { return max == kLowest ? 0.0f : max; }
  OPFORGE_INLINE_MEMBER bool held() const { return columns <= kHeld; }

  OPFORGE_INLINE_MEMBER void read_begin(int64_t row) {
    in->x = x + row * x_row;
    in->slots = 0;
    in->max = kLowest;
    max_low = max_high = both(kLowest);
    chunk = 0;
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void read(int64_t column) {
    prefetch_step<V>(in->x, column);
    const Step v = load_step<T, kContiguous, kFull>(in->x, x_column, column, columns, kLowest);
    max_low = max(max_low, v.low);
    max_high = max(max_high, v.high);
  }
  // A NaN may get lost in the maximum, but its exponential carries it into the sum and so into the
  // whole row.
  OPFORGE_INLINE_MEMBER void read_chunk(int64_t from, int64_t to) {
    const float top = lane_max(max(max_low, max_high));
    max_low = max_high = both(kLowest);
    const float before = base_of(in->max);
    if (in->max < top) in->max = top;
    const float base = base_of(in->max);
    if (chunk++ % chunks_per_slot == 0) {
      sums[in->slots++] = 0.0f;
    } else {
      sums[in->slots - 1] *= hn::GetLane(exponential<float>(set(before - base))) * 0x1p-26f;
    }
    in->base[in->slots - 1] = base;
    Pair sum_low = both(0.0f), sum_high = both(0.0f);
    const int64_t full = from + (to - from) / kStep * kStep;
    for (int64_t column = from; column < full; column += kStep)
      exponentials<true>(column, base, sum_low, sum_high);
    if (full < to) exponentials<false>(full, base, sum_low, sum_high);
    sums[in->slots - 1] += lane_sum(add(sum_low, sum_high));
  }
  template <bool kFull>
  OPFORGE_INLINE_MEMBER void exponentials(int64_t column, float base, Pair& sum_low,
                                          Pair& sum_high) {
    Step v = load_step<T, kContiguous, kFull>(in->x, x_column, column, columns, kLowest);
    v = {exponential<T>(sub(v.low, both(base))), exponential<T>(sub(v.high, both(base)))};
    sum_low = add(sum_low, v.low);
    sum_high = add(sum_high, v.high);
    if (!held()) return;
    store(in->held + column, v.low);
    store(in->held + column + kPair, v.high);
  }
  OPFORGE_INLINE_MEMBER void read_end() {
    State& s = *in;
    for (int64_t i = s.slots; i % kLanes != 0; i++) {
      s.base[i] = kLowest;
      sums[i] = 0.0f;
    }
    const float base = base_of(s.max);
    F sum = set(0.0f);
    for (int64_t i = 0; i < s.slots;) {
      F part = set(0.0f);  // two levels: fewer roundings on the way of one chunk's sum
      for (const int64_t end = lesser(i + 16 * kLanes, s.slots); i < end; i += kLanes) {
        const F factor = exponential<float>(hn::Sub(hn::Load(kF32, s.base + i), set(base)));
        part = hn::MulAdd(factor, hn::Load(kF32, sums + i), part);
        hn::Store(factor, kF32, s.base + i);
      }
      sum = hn::Add(sum, part);
    }
    // Nothing above -inf: 0 / 0.
    s.scale = s.max == kLowest ? __builtin_nanf("") : 1.0f / lane_sum(sum);
  }

  OPFORGE_INLINE_MEMBER bool write_begin(int64_t row) {
    State* read = in;
    in = out;
    out = read;
    target = y + row * y_row;
    return kContiguous && can_stream(target);
  }
  template <bool kFull, bool kStream>
  OPFORGE_INLINE_MEMBER void write(int64_t column) {
    Step v;
    if (held()) {
      const Pair factor = both(out->base[column / kChunk]), scale = both(out->scale);
      v = {mul(mul(load(out->held + column), factor), scale),
           mul(mul(load(out->held + column + kPair), factor), scale)};
    } else {
      v = load_step<T, kContiguous, kFull>(out->x, x_column, column, columns, kLowest);
      const Pair base = both(base_of(out->max)), scale = both(out->scale * 0x1p26f);
      v = {mul(exponential<T>(sub(v.low, base)), scale),
           mul(exponential<T>(sub(v.high, base)), scale)};
    }
    store_step<kContiguous, kFull, kStream>(target, y_column, column, columns, v);
  }
};

template <class V>
void softmax(const void* x, void* y, int64_t columns, int64_t x_row_stride, int64_t x_column_stride,
             int64_t y_row_stride, int64_t y_column_stride, int64_t begin, int64_t end) {
  using Rows = SoftmaxRows<V>;
  Rows rows;
  rows.x = static_cast<const typename V::T*>(x);
  rows.y = static_cast<typename V::T*>(y);
  rows.columns = columns;
  rows.x_row = x_row_stride;
  rows.x_column = x_column_stride;
  rows.y_row = y_row_stride;
  rows.y_column = y_column_stride;
  rows.chunks_per_slot = 1 + columns / (Rows::kSlots * kChunk);
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::softmax;
}  // namespace opforge
