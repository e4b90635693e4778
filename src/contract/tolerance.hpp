// How far a result may be from the double reference. One tolerance per operator and tier; nothing else sets one.
#pragma once

#include "contract/tier.hpp"
#include "tensor/dtype.hpp"

namespace opforge {

// error <= a * ulp(reference in the output dtype) + b * eps(fp32) * condition, where the reference supplies the condition
// (sum of magnitudes that went into the element), so that cancellation is judged fairly. `a` and `b` are derived in the
// operator's README.
struct Bound {
  double a = 0.5;  // in ulps of the output dtype
  double b = 0;    // in fp32 epsilons of the condition
  double limit(double reference, double condition, DType output) const;
};

struct Tolerances {
  Bound fast;
  Bound high_precision;  // also for DETERMINISTIC
  const Bound& at(Tier tier) const { return tier == Tier::kFast ? fast : high_precision; }
};

}  // namespace opforge
