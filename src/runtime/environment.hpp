// The OPFORGE_ variables of this process. Read when a Runtime is made, never on the launch path.
#pragma once

#include <string>
#include <vector>

namespace opforge {

// Names that mean something, sorted.
const std::vector<std::string>& known_variables();
// OPFORGE_ variables of the environment that mean nothing, sorted.
std::vector<std::string> unknown_variables();
// Log one warning for the process that names the unknown variables and lists the valid ones, if
// there are any.
void warn_of_unknown_variables();

}  // namespace opforge
