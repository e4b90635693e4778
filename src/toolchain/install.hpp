// Making the Python environments of toolchains: `opforge doctor --install`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge {

// What can be installed: backends with a requirements.txt. "name==3.6" stands for a
// requirements-3.6.txt beside it.
std::vector<std::string> installable();

struct InstallOptions {
  bool again = false;  // make it anew where it exists already
  std::function<void(std::string_view line)> progress;
  std::function<bool()> cancelled;
};

// Make <data folder>/venvs/<name> (of "name==3.6": <name>-3.6) from the pinned requirements: wheels
// from the package index with their hashes checked, no dependencies, nothing of the user's own
// Python touched. Staged beside it and renamed, so that a broken download leaves what was there.
// Packages that stand in for others (backends/<name>/stub) are copied into it. Returns the folder;
// `made`: false when it was there already.
// kNotFound for an unknown name (the known ones are listed), kToolchain when there is no Python
// from 3.10 to 3.13 with its venv module (OPFORGE_PYTHON names one), or pip failed (its last
// lines), kIo when the folder cannot be written.
Result<Path> install_environment(const std::string& name, const InstallOptions& options,
                                 bool* made = nullptr);

}  // namespace opforge
