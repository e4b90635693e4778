// An output against the double reference, element by element, within the declaration's bound.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "contract/tolerance.hpp"
#include "operator/operator.hpp"

namespace opforge {

struct ElementError {
  bool ok = true;
  double ulps =
      0;  // |actual - reference| in ulps of the output dtype; infinity for a wrong special value
  double share = 0;  // error / bound; infinity for a wrong special value
};
// NaN is right only where the reference is NaN; an infinity only where the reference, rounded to
// `output`, is that infinity or is within the bound of overflowing. `condition` is the sum of
// magnitudes.
ElementError compare_element(double actual, double reference, double condition, DType output,
                             const Bound& bound);

struct TensorErrors {
  std::int64_t elements = 0, wrong = 0;
  double worst_ulps = 0, worst_share = 0;
  std::vector<std::int64_t> worst_at;  // index in the output's dims
  std::string problem;                 // the worst wrong element; empty when all are right
};
// `actual` in row-major order of reference.dims. `name` is the tensor's, for the message.
TensorErrors compare_tensor(std::string_view name, std::span<const double> actual,
                            const ReferenceTensor& reference, DType output, const Bound& bound);

}  // namespace opforge
