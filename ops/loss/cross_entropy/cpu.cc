// Cross entropy. A row is read twice: for its maximum, then in chunks for the sums of exp(x -
// maximum) and of x, f32 lanes a chunk and double across chunks.
#include "opforge_log.hpp"
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

inline constexpr float kLowest = -__builtin_inff();

template <class V>
struct Logits {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  const T* x;
  int64_t stride, columns;

  template <bool kFull>
  OPFORGE_INLINE_MEMBER Step load(int64_t column, float fill) const {
    return load_step<T, kContiguous, kFull>(x, stride, column, columns, fill);
  }
  // A NaN may get lost; exp(NaN - maximum) brings it back.
  OPFORGE_INLINE_MEMBER float maximum() const {
    Pair max = both(kLowest);
    const int64_t full = columns / kStep * kStep;
    for (int64_t i = 0; i < full; i += kStep) {
      const Step v = load<true>(i, kLowest);
      max = cpu::max(max, cpu::max(v.low, v.high));
    }
    if (full < columns) {
      const Step v = load<false>(full, kLowest);
      max = cpu::max(max, cpu::max(v.low, v.high));
    }
    // hn::Max gives its second operand where one is NaN: what is left of a row may be NaN here.
    return lane_max(max);
  }
  struct Sums {
    double exponentials, values;
  };
  // A NaN maximum makes both NaN.
  OPFORGE_INLINE_MEMBER Sums sums(float max) const {
    Sums all{0, 0};
    const Pair base = both(max);
    for (int64_t from = 0; from < columns; from += kChunk) {
      const int64_t to = lesser(from + kChunk, columns), full = from + (to - from) / kStep * kStep;
      Pair e = both(0.0f), s = both(0.0f);
      for (int64_t i = from; i < full; i += kStep) {
        const Step v = load<true>(i, 0.0f);
        s = add(s, add(v.low, v.high));
        e = add(e, add(exp(sub(v.low, base)), exp(sub(v.high, base))));
      }
      if (full < to) {
        const Step v = load<false>(full, 0.0f), inside = first_elements<T>(columns - full);
        s = add(s, add(v.low, v.high));
        e = add(e, add(keep(exp(sub(v.low, base)), inside.low),
                       keep(exp(sub(v.high, base)), inside.high)));
      }
      all.exponentials += static_cast<double>(lane_sum(e));
      all.values += static_cast<double>(lane_sum(s));
    }
    return all;
  }
  // v where `inside` is not 0, else 0: a product would turn an infinity into NaN.
  OPFORGE_INLINE_MEMBER static Pair keep(Pair v, Pair inside) {
    const F zero = hn::Zero(kF32);
    return {hn::IfThenElse(hn::Gt(inside.a, zero), v.a, zero),
            hn::IfThenElse(hn::Gt(inside.b, zero), v.b, zero)};
  }
};

template <class V>
void cross_entropy(const void* x_data, const void* target_data, void* lse_data, void* loss_data,
                   int64_t columns, int64_t x_row, int64_t x_column, int64_t target_row,
                   int64_t lse_row, int64_t loss_row, int64_t ignore_index, float label_smoothing,
                   float z_loss, int64_t begin, int64_t end) {
  using T = typename V::T;
  const T* x = static_cast<const T*>(x_data);
  const int64_t* targets = static_cast<const int64_t*>(target_data);
  float* lses = static_cast<float*>(lse_data);
  float* losses = static_cast<float*>(loss_data);
  for (int64_t row = begin; row < end; row++) {
    const Logits<V> logits{x + row * x_row, x_column, columns};
    const float max = logits.maximum();
    double lse = kLowest, mean = 0;
    if (max != kLowest || columns > 0) {
      const auto sums = logits.sums(max == kLowest ? 0.0f : max);
      lse = (max == kLowest ? 0.0 : static_cast<double>(max)) + log_f64(sums.exponentials);
      mean = sums.values / static_cast<double>(columns);
    }
    const int64_t target = targets[row * target_row];
    double loss = __builtin_nan("");
    if (target == ignore_index) {
      loss = 0;
    } else if (target >= 0 && target < columns) {
      const double smoothing = static_cast<double>(label_smoothing),
                   z = static_cast<double>(z_loss);
      loss = lse;
      if (smoothing < 1)
        loss -= (1 - smoothing) * static_cast<double>(to_f32(logits.x[target * x_column]));
      if (smoothing > 0) loss -= smoothing * mean;
      if (z > 0) loss += z * lse * lse;
    }
    lses[row * lse_row] = static_cast<float>(lse);
    losses[row * loss_row] = static_cast<float>(loss);
  }
}

}  // namespace cpu
using cpu::cross_entropy;
}  // namespace opforge
