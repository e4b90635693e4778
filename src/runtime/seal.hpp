// Process-wide: mode and seal. From seal() on nothing compiles in this process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace opforge {

void seal();  // cannot be undone
bool is_sealed();
void develop();  // development mode: a call may compile. Ignored when sealed
bool is_development();

// To be called by everything that is about to compile (toolchains, the driver's PTX compiler).
// kCompilationSealed names `what`; refused attempts are kept for sealed_misses().
Status may_compile(std::string_view what);
std::vector<std::string> sealed_misses();

}  // namespace opforge
