// Sums that do not round more as they grow longer.
#pragma once

#include "opforge_cuda.cuh"

namespace opforge {

// A sum that remembers what its additions lost (W. Kahan, 1965): within 2 u of the sum of
// magnitudes, however many.
struct LongSum {
  float total, lost;
  OPFORGE_DEVICE void add(float value) {
    const float v = value - lost, next = total + v;
    lost = fabsf(next) < infinity() ? (next - total) - v : 0.0f;  // inf - inf would be NaN
    total = next;
  }
};

}  // namespace opforge
