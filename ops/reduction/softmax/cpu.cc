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

// exp is taken of x - base: base is the maximum, but 0 where there is nothing above -inf (-inf -
// -inf would be NaN).
OPFORGE_INLINE float base_of(float max) { return max == kLowest ? 0.0f : max; }

template <class V>
struct SoftmaxRows {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  static constexpr int64_t kHeld =
      16384;  // columns whose exponentials are kept; longer rows compute them twice
  static constexpr int64_t kSlots = 2048;  // pieces of a row with a maximum and a sum of their own

  struct Reader {
    const T* x;
    int64_t x_column, columns, chunks_per_slot;
    float *held, *bases, *sums;  // 2^26 exp(x - base) (null: not kept); of slots: base and sum
    int64_t chunks, slots;
    float max;
    Pair max_low, max_high;

    template <bool kFull>
    OPFORGE_INLINE_MEMBER void read(int64_t column) {
      prefetch_step<V>(x, column);
      const Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns, kLowest);
      max_low = cpu::max(max_low, v.low);
      max_high = cpu::max(max_high, v.high);
    }
    // A NaN may get lost in the maximum, but its exponential carries it into the sum and so into
    // the whole row.
    OPFORGE_INLINE_MEMBER void chunk(int64_t from, int64_t to) {
      const float top = lane_max(cpu::max(max_low, max_high));
      max_low = max_high = both(kLowest);
      const float before = base_of(max);
      if (max < top) max = top;
      const float base = base_of(max);
      if (chunks++ % chunks_per_slot == 0) {
        sums[slots++] = 0.0f;
      } else {
        sums[slots - 1] *= hn::GetLane(exponential<float>(set(before - base))) * 0x1p-26f;
      }
      bases[slots - 1] = base;
      Step sum{both(0.0f), both(0.0f)};
      const int64_t full = from + (to - from) / kStep * kStep;
      for (int64_t column = from; column < full; column += kStep)
        exponentials<true>(column, base, sum);
      if (full < to) exponentials<false>(full, base, sum);
      sums[slots - 1] += lane_sum(add(sum.low, sum.high));
    }
    template <bool kFull>
    OPFORGE_INLINE_MEMBER void exponentials(int64_t column, float base, Step& sum) const {
      Step v = load_step<T, kContiguous, kFull>(x, x_column, column, columns, kLowest);
      v = {exponential<T>(sub(v.low, both(base))), exponential<T>(sub(v.high, both(base)))};
      sum = {add(sum.low, v.low), add(sum.high, v.high)};
      if (held == nullptr) return;
      store(held + column, v.low);
      store(held + column + kPair, v.high);
    }
  };

  struct Writer {
    const T* x;
    int64_t x_column, y_column, columns;
    const float *held, *factors;  // 2^26 exp(base - max) of slots
    float base,
        scale;  // of the row: maximum; 2^-52 / sum where exponentials are held, else 2^-26 / sum
    T* y;
    bool may_stream;

    template <bool kFull, bool kStream>
    OPFORGE_INLINE_MEMBER void write(int64_t column) const {
      Step v;
      if (held != nullptr) {
        const Pair factor = both(factors[column / kChunk]);
        v = {mul(load(held + column), factor), mul(load(held + column + kPair), factor)};
      } else {
        v = load_step<T, kContiguous, kFull>(x, x_column, column, columns, kLowest);
        v = {exponential<T>(sub(v.low, both(base))), exponential<T>(sub(v.high, both(base)))};
      }
      v = {mul(v.low, both(scale)), mul(v.high, both(scale))};
      store_step<kContiguous, kFull, kStream>(y, y_column, column, columns, v);
    }
  };

  const T* x;
  T* y;
  int64_t columns, x_row, x_column, y_row, y_column;
  // Two rows are in work: one is read, the other written.
  alignas(64) float held[2][kHeld];
  alignas(64) float bases[2][kSlots];
  alignas(64) float sums[kSlots];
  float row_max, row_scale;

  OPFORGE_INLINE_MEMBER float* kept(int64_t row) {
    return columns <= kHeld ? held[row & 1] : nullptr;
  }

  OPFORGE_INLINE_MEMBER Reader reader(int64_t row) {
    return {x + row * x_row,
            x_column,
            columns,
            1 + columns / (kSlots * kChunk),
            kept(row),
            bases[row & 1],
            sums,
            0,
            0,
            kLowest,
            both(kLowest),
            both(kLowest)};
  }
  OPFORGE_INLINE_MEMBER void finish(Reader& r) {
    for (int64_t i = r.slots; i % kLanes != 0; i++) {
      r.bases[i] = kLowest;
      sums[i] = 0.0f;
    }
    const float base = base_of(r.max);
    F sum = set(0.0f);
    for (int64_t i = 0; i < r.slots;) {
      F part = set(0.0f);  // two levels: fewer roundings on the way of one chunk's sum
      for (const int64_t end = lesser(i + 16 * kLanes, r.slots); i < end; i += kLanes) {
        const F factor = exponential<float>(hn::Sub(hn::Load(kF32, r.bases + i), set(base)));
        part = hn::MulAdd(factor, hn::Load(kF32, sums + i), part);
        hn::Store(factor, kF32, r.bases + i);
      }
      sum = hn::Add(sum, part);
    }
    row_max = base;
    // Nothing above -inf: 0 / 0.
    row_scale = r.max == kLowest ? __builtin_nanf("") : 1.0f / lane_sum(sum);
  }
  OPFORGE_INLINE_MEMBER Writer writer(int64_t row) {
    T* target = y + row * y_row;
    const float* h = kept(row);
    return {x + row * x_row,
            x_column,
            y_column,
            columns,
            h,
            bases[row & 1],
            row_max,
            h != nullptr ? row_scale : row_scale * 0x1p26f,
            target,
            kContiguous && can_stream(target)};
  }
};

template <class V>
void softmax(const void* x, void* y, int64_t columns, int64_t x_row_stride, int64_t x_column_stride,
             int64_t y_row_stride, int64_t y_column_stride, int64_t begin, int64_t end) {
  SoftmaxRows<V> rows;
  rows.x = static_cast<const typename V::T*>(x);
  rows.y = static_cast<typename V::T*>(y);
  rows.columns = columns;
  rows.x_row = x_row_stride;
  rows.x_column = x_column_stride;
  rows.y_row = y_row_stride;
  rows.y_column = y_column_stride;
  run_rows<V>(rows, columns, begin, end);
}

}  // namespace cpu
using cpu::softmax;
}  // namespace opforge
