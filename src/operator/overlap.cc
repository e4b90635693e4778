#include "operator/overlap.hpp"

#include <algorithm>
#include <vector>

namespace opforge {
namespace {

using Wide = __int128;

Wide stride_bytes(const TensorView& view, int dim) {
  const Wide bytes = Wide{view.strides[static_cast<std::size_t>(dim)]} * itemsize(view.dtype);
  return bytes < 0 ? -bytes : bytes;
}

// Bytes that a view covers when positions are taken modulo `period`; 0 when dims that do not vanish
// reach over it.
Wide extent_within(const TensorView& view, Wide period) {
  Wide extent = static_cast<Wide>(itemsize(view.dtype));
  for (int d = 0; d < view.rank; ++d) {
    const Wide stride = stride_bytes(view, d);
    const Wide dim = view.dims[static_cast<std::size_t>(d)];
    if (dim > 1 && stride % period != 0) extent += stride * (dim - 1);
  }
  return extent <= period ? extent : 0;
}

bool apart_modulo(const TensorView& a, const TensorView& b, Wide period) {
  const Wide in_a = extent_within(a, period), in_b = extent_within(b, period);
  if (in_a == 0 || in_b == 0) return false;
  const Wide from = static_cast<Wide>(byte_range(a).low), to = static_cast<Wide>(byte_range(b).low);
  Wide shift = (to - from) % period;
  if (shift < 0) shift += period;
  return shift >= in_a && shift + in_b <= period;
}

}  // namespace

bool may_share_elements(const TensorView& a, const TensorView& b) {
  if (!overlaps(a, b)) return false;
  for (const TensorView* view : {&a, &b}) {
    for (int d = 0; d < view->rank; ++d) {
      if (view->dims[static_cast<std::size_t>(d)] <= 1) continue;
      const Wide period = stride_bytes(*view, d);
      if (period > 0 && apart_modulo(a, b, period)) return false;
    }
  }
  return true;
}

bool may_overlap_itself(const TensorView& view) {
  if (view.element_count() == 0) return false;
  std::vector<std::pair<Wide, Wide>> dims;  // stride and extent, in elements
  for (int d = 0; d < view.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const Wide stride = view.strides[i];
    if (view.dims[i] > 1) dims.emplace_back(stride < 0 ? -stride : stride, view.dims[i]);
  }
  std::sort(dims.begin(), dims.end());
  Wide reach = 1;  // elements covered by the dims so far
  for (const auto& [stride, extent] : dims) {
    if (stride < reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}

}  // namespace opforge
