// Do views share elements? Used by bind_call; exact for what callers do, else it errs on the side
// of "yes".
#pragma once

#include "tensor/view.hpp"

namespace opforge {

// False when no byte belongs to both: their ranges are apart, or they interleave (two column blocks
// of one matrix).
bool may_share_elements(const TensorView& a, const TensorView& b);

// False when every element has bytes of its own.
bool may_overlap_itself(const TensorView& view);

}  // namespace opforge
