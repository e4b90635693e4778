// Precompiled headers of this process: a build of many variants reads the same system headers again
// and again, and reading Highway takes longer than compiling a kernel.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge {

// The folder that holds what `make` put there for `key` (all that the result depends on), or none:
// for the first two askers, since making it costs about two compiles; when `make` failed, which is
// logged once; and beyond a few keys, since each takes tens of megabytes. Made once; other threads
// wait for it. The folders are removed when the process ends.
std::optional<Path> precompiled(const std::string& key,
                                const std::function<Status(const Path& folder)>& make);

}  // namespace opforge
