// Reads and writes past the ends of tensors that change no result: memory that ends where a page
// ends, and nothing after it.
#pragma once

#include <string>

#include "verify/inputs.hpp"
#include "verify/subject.hpp"

namespace opforge {

// Runs host code in a child process on tensors that lie directly before, then directly after, pages
// that may not be touched. Returns what it touched, or how else the child died; empty when it ended
// well. kUnavailable when the code refuses the call or does not run on host memory. Contiguous
// trials only.
Result<std::string> touched_outside(LoadedSubject& subject, const Operator& op, const Trial& trial);

}  // namespace opforge
