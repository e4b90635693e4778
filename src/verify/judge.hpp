// The verdict on one run: every output against the double reference.
#pragma once

#include <string>

#include "contract/tolerance.hpp"
#include "verify/inputs.hpp"

namespace opforge {

struct Judgement {
  double worst_ulps = 0, worst_share = 0;
  std::string problem;  // empty: right
};

// After a run over `memory`: outputs written everywhere and within `bound` of the reference. Large
// trials are judged on rows at the ends, where counts wrap, and random ones (where the operator has
// a dim that can be cut); every element is still looked at for poison. An error only when memory
// cannot be read or the reference is unusable.
Result<Judgement> judge(const Operator& op, const TrialMemory& memory, const Bound& bound);

}  // namespace opforge
