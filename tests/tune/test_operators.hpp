// Operators with real CPU kernels for tests and benchmarks of the tuner.
#pragma once

#include "operator/operator.hpp"

namespace opforge::test {

// FAULT: 0 none, 1 crash, 2 hang, 3 abort, 4 exit(0), 5 write past the end, 6 eat memory, 7 wrong
// numbers, 8 NaN, 9 dropped tail, 10 wrong after 1,000 calls.
Operator misbehaving_operator();
// WORK 1100 is the default, 1000 is 10 % faster, 1089 is 1 % faster; TWIN 0 and 1 are equal.
Operator planted_operator();
Result<Catalogue> test_catalogue();

}  // namespace opforge::test
