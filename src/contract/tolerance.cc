#include "contract/tolerance.hpp"

#include <cmath>

namespace opforge {

double Bound::limit(double reference, double condition, DType output) const {
  const double from_condition = b == 0 ? 0 : b * epsilon(DType::kF32) * std::fabs(condition);
  return a * ulp_at(reference, output) + from_condition;
}

}  // namespace opforge
