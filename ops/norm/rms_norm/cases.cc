#include "ops/row_kernels.hpp"

namespace opforge {

std::vector<Case> rms_norm_cases() { return rows::row_cases(); }

}  // namespace opforge
