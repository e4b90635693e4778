// What a reference sees. Standard library and value.hpp only: the wrapper that builds a reference
// into a pack includes this file, and nothing else of opforge.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "operator/value.hpp"

namespace opforge {

// A tensor of the reference: dense row-major doubles with the declared rank.
struct ReferenceTensor {
  std::vector<std::int64_t> dims;
  std::vector<double> values;
  // Outputs: sum of magnitudes for each element (contract/tolerance.hpp); empty: |value|.
  std::vector<double> condition;
  bool present = true;
};

// Arguments of a reference by name. Outputs come sized and filled with NaN; kUpdate tensors come
// with their old values.
struct ReferenceCall {
  std::map<std::string, ReferenceTensor, std::less<>> tensors;
  ValueMap attributes;  // every attribute, defaults filled in
  ValueMap dims;
};
using ReferenceFunction = void (*)(ReferenceCall& call);

}  // namespace opforge
