#include "ops/row_kernels.hpp"

namespace opforge {

std::vector<Case> layer_norm_cases() { return rows::row_cases(); }

}  // namespace opforge
