// The trials of DETERMINISTIC: the same bits whatever changes round a row.
#pragma once

#include <string>
#include <vector>

#include "verify/inputs.hpp"
#include "verify/subject.hpp"

namespace opforge {

// The bytes of every tensor that the code writes, in signature order, elements in row-major order,
// after one run. kUnavailable with the reason when the code refuses these arguments.
Result<std::vector<std::string>> output_bits(LoadedSubject& subject, TrialMemory& memory,
                                             StreamHandle stream = nullptr,
                                             std::int64_t least_items = 0);

// Runs the trial again and again: repeated, in other streams, with other numbers of threads and
// items in a chunk, in other layouts, and with rows at other positions, among other rows, in
// another number. Returns the first difference by name; empty when there is none. kUnavailable when
// the code refuses the plain call.
Result<std::string> bitwise_difference(LoadedSubject& subject, const Operator& op,
                                       const Trial& trial);

}  // namespace opforge
