// Runs every default variant of an operator, on every device here that can, on values that a test
// gives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "operator/operator.hpp"

namespace opforge {

// Values in row-major order; they are rounded to the tensor's dtype. Rows start `pad` elements
// after the end of the one before, the first `offset` elements after a 256-byte boundary.
struct TestTensor {
  std::vector<std::int64_t> dims;
  std::vector<double> values;
  std::int64_t pad = 0, offset = 0;
};

struct TestRun {
  std::string variant;         // for messages
  std::vector<double> output;  // of the only output, row-major
};

// `inputs` by tensor name; optional tensors may be left out; `output_dims` of the only output,
// which gets the pad and offset of the first input. Variants whose guards refuse the call are left
// out; at least one kernel of each backend that runs here must take it, else the test fails.
// Failures are reported with ADD_FAILURE.
std::vector<TestRun> run_operator(const std::string& op, const DTypeCombo& dtypes,
                                  const std::map<std::string, TestTensor>& inputs,
                                  const std::vector<std::int64_t>& output_dims,
                                  const ValueMap& attributes = {});

}  // namespace opforge
