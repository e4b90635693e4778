// Stand-ins for a DSL: an interpreter, worker scripts, environments.
#pragma once

#include <cstdlib>
#include <string>

#include "base/process.hpp"
#include "base/text.hpp"
#include "toolchain/kernel_fixture.hpp"

namespace opforge::test {

// The real program behind python3 in PATH (a wrapper would need the caller's HOME); empty: none.
inline Path system_python() {
  static const Path found = [] {
    ProcessSpec spec;
    spec.argv = {"python3", "-c", "import sys; print(sys.executable)"};
    const auto result = run_process(spec);
    return result ? Path(std::string(trim(result->output))) : Path{};
  }();
  return found;
}

#define OPFORGE_NEED_PYTHON() \
  if (::opforge::test::system_python().empty()) GTEST_SKIP() << "no python3 in PATH"

// A virtual environment as far as it is looked at: `package` of `version`, and an interpreter.
inline void make_venv(const Path& root, const std::string& package, const std::string& version,
                      const std::string& file_hash = "sha256=abc") {
  put(root / "pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
  const Path site = root / "lib" / "python3.11" / "site-packages";
  put(site / (package + "-" + version + ".dist-info") / "RECORD",
      "../../../bin/tool,sha256=" + root.filename().string() + ",1\n" + package + "/__init__.py," +
          file_hash + ",10\n" + package + "-" + version + ".dist-info/INSTALLER,sha256=x,4\n" +
          package + "/__pycache__/__init__.cpython-311.pyc,,\n");
  put(root / "bin" / "python3",
      "#!/bin/sh\n: > " + (root / "was_started").string() + "\nexit 1\n");
  std::filesystem::permissions(root / "bin" / "python3", std::filesystem::perms::owner_all);
}

}  // namespace opforge::test
