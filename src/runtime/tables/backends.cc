// The generated table of launchers (backends/*/backend.cmake).
#include "runtime/backends.hpp"

#include <vector>

namespace opforge {
#include "launchers.inc"  // declares the functions and kRows
}  // namespace opforge
