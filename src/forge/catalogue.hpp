// The operators built into this process: the generated table, then plug-ins.
#pragma once

#include <span>
#include <string>

#include "operator/operator.hpp"

namespace opforge {

// Validates all; an error names the operator. `plugins` are those named by --plugin; the others are found
// (forge/plugin.hpp).
Result<Catalogue> load_catalogue(std::span<const std::string> plugins = {});

// Add one operator as the tables do: its folder made absolute (below source_root(); ops/<group>/<op> when it names none),
// its reference as a kernel, validated.
Status add_operator(Catalogue& catalogue, Operator op);

}  // namespace opforge
