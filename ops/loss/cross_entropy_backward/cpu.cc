// The gradient of the cross entropy, a row a work item: exp(x - lse) and two numbers of the row.
#include "opforge_rows.hpp"

namespace opforge {
namespace cpu {

template <class V>
struct LossGradient {
  using T = typename V::T;
  static constexpr bool kContiguous = V::LAYOUT == 1;
  const T* x;
  T* dx;
  int64_t x_step, dx_step, columns;
  float lse, scale, taken, dloss;  // dx = dloss (exp(x - lse) scale - taken)

  template <bool kFull>
  OPFORGE_INLINE_MEMBER void write(int64_t column) const {
    const Step v = load_step<T, kContiguous, kFull>(x, x_step, column, columns);
    store_step<kContiguous, kFull, false>(dx, dx_step, column, columns,
                                          {gradient(v.low), gradient(v.high)});
  }
  // `more`: what the target has taken off besides. Where exp leaves f32's range, dloss may bring it
  // back, and `taken` is nothing beside it.
  OPFORGE_INLINE_MEMBER F gradient(F v, float more) const {
    const F e = exp(hn::Mul(hn::Sub(v, set(lse)), set(0.5f)));
    const F p = hn::Mul(hn::Mul(e, set(scale)), e);
    return hn::IfThenElse(hn::IsFinite(p), hn::Mul(hn::Sub(p, set(taken + more)), set(dloss)),
                          hn::Mul(hn::Mul(e, set(dloss * scale)), e));
  }
  OPFORGE_INLINE_MEMBER Pair gradient(Pair v) const {
    return {gradient(v.a, 0.0f), gradient(v.b, 0.0f)};
  }
};

template <class V>
void cross_entropy_backward(const void* x_data, const void* target_data, const void* lse_data,
                            const void* dloss_data, void* dx_data, int64_t columns, int64_t x_row,
                            int64_t x_column, int64_t target_row, int64_t lse_row,
                            int64_t dloss_row, int64_t dx_row, int64_t dx_column,
                            int64_t ignore_index, float label_smoothing, float z_loss,
                            int64_t begin, int64_t end) {
  using T = typename V::T;
  for (int64_t row = begin; row < end; row++) {
    T* dx = static_cast<T*>(dx_data) + row * dx_row;
    const int64_t target = static_cast<const int64_t*>(target_data)[row * target_row];
    const bool ignored = target == ignore_index;
    if (ignored || target < 0 || target >= columns) {
      const T value = from_f32<T>(ignored ? 0.0f : __builtin_nanf(""));
      for (int64_t i = 0; i < columns; i++) dx[i * dx_column] = value;
      continue;
    }
    LossGradient<V> gradient{static_cast<const T*>(x_data) + row * x_row,
                             dx,
                             x_column,
                             dx_column,
                             columns,
                             static_cast<const float*>(lse_data)[row * lse_row],
                             0.0f,
                             label_smoothing / static_cast<float>(columns),
                             static_cast<const float*>(dloss_data)[row * dloss_row]};
    gradient.scale = z_loss > 0 ? 1.0f + 2.0f * z_loss * gradient.lse : 1.0f;
    const float own = to_f32(gradient.x[target * x_column]);  // dx may be x
    const int64_t full = columns / kStep * kStep;
    for (int64_t i = 0; i < full; i += kStep) gradient.template write<true>(i);
    if (full < columns) gradient.template write<false>(full);
    dx[target * dx_column] =
        from_f32<T>(hn::GetLane(gradient.gradient(set(own), 1.0f - label_smoothing)));
  }
}

}  // namespace cpu
using cpu::cross_entropy_backward;
}  // namespace opforge
