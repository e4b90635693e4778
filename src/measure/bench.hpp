// Benchmarks of an operator's compiled kernels: buffers, plans and the floor from the declaration,
// then measure().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "measure/measure.hpp"
#include "operator/operator.hpp"
#include "verify/inputs.hpp"
#include "verify/subject.hpp"

namespace opforge {

// One shape of one operator. Dims of the declaration's symbols; attributes that differ from the
// defaults.
struct BenchShape {
  std::string name;
  ValueMap dims, attributes;
  DTypeCombo dtypes;
};

// The least bytes and operations of a run at this shape (Operator::work), on this device.
Result<Floor> floor_of(const Operator& op, const BenchShape& shape, const DeviceInfo& device,
                       const CopyCeiling& ceiling);

// Time code on random inputs of the declared fills, contiguous, in rotated buffers (in cold mode
// enough sets that all of them together are four times the cache). Every output is poisoned before
// and checked against the double reference on sampled rows after timing: an artifact whose output
// is wrong is rejected by name, however fast it was. The first subject is the incumbent. `ceiling`
// as measured in the same process.
Result<Comparison> bench_code(const Operator& op, std::span<const BuiltCode> codes,
                              const BenchShape& shape, DeviceApi& api, const DeviceInfo& device,
                              const CopyCeiling& ceiling, const MeasureOptions& options);

}  // namespace opforge
