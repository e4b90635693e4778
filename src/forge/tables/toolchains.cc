// The generated table of toolchains (backends/*/backend.cmake), and where this program was built
// from.
#include <vector>

#include "toolchain/source.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

#include "toolchains.inc"  // declares the functions and kRows

std::span<Toolchain* const> all_toolchains() {
  static const std::vector<Toolchain*> toolchains = [] {
    std::vector<Toolchain*> list;
    for (const auto& row : kRows) {
      if (row.make != nullptr) list.push_back(row.make());
    }
    return list;
  }();
  return toolchains;
}

Toolchain* find_toolchain(std::string_view backend, const Target& target) {
  for (Toolchain* toolchain : all_toolchains()) {
    if (toolchain->backend() == backend && toolchain->serves(target)) return toolchain;
  }
  return nullptr;
}

std::string_view build_source_dir() { return OPFORGE_BUILD_SOURCE_DIR; }

}  // namespace opforge
