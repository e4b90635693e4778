// The Python environments that DSL compilers live in: one for each DSL, made by
// `opforge doctor --install`, never the user's own. Found and identified without running Python.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"

namespace opforge {

// OPFORGE_DATA_DIR, else $XDG_DATA_HOME/opforge, else $HOME/.local/share/opforge; empty when none
// of the variables is set.
Path data_folder();

// OPFORGE_VENV_<NAME> (upper case), else <data folder>/venvs/<name>.
Path venv_folder(std::string_view name);

struct Venv {
  std::string name;  // "triton"
  Path root;
  Path python;                                  // <root>/bin/python3
  Path site_packages;                           // <root>/lib/python3.*/site-packages
  std::string python_version;                   // "3.12.1", from pyvenv.cfg
  std::map<std::string, std::string> packages;  // "cuda-tile" -> "1.7.0", names in lower case
  // Over what RECORD says of every package's files, and Python's minor version. Scripts, compiled
  // modules and installers' notes do not count: two environments made in two places have one
  // digest.
  Digest digest;
};

// kToolchain when there is none, or it is damaged (no interpreter, no package, a package without
// RECORD): the message says where it was looked for and how to make it. Kept as long as pyvenv.cfg
// and all RECORD files stay the same.
Result<std::shared_ptr<const Venv>> find_venv(std::string_view name);

}  // namespace opforge
