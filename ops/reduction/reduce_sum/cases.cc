#include "ops/row_kernels.hpp"

namespace opforge {

std::vector<Case> reduce_sum_cases() { return rows::row_cases(); }

}  // namespace opforge
