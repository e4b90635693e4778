#include "ops/row_kernels.hpp"

namespace opforge {

std::vector<Case> softmax_cases() { return rows::row_cases(); }

}  // namespace opforge
