// The generated table of launchers (backends/*/backend.cmake).
#include "runtime/backends.hpp"

#include <vector>

namespace opforge {
namespace {
#include "launchers.inc"
}  // namespace
}  // namespace opforge
