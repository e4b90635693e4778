// The operators built into this process: the generated table, then plug-ins.
#pragma once

#include "operator/operator.hpp"

namespace opforge {

// Validates all; an error names the operator. Plug-in paths come from --plugin and OPFORGE_PLUGINS (':' separated).
Result<Catalogue> load_catalogue(std::span<const std::string> plugins = {});

}  // namespace opforge
