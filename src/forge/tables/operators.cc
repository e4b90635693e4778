// The generated table of operators (ops/*/*/op.cmake).
#include <fmt/format.h>

#include "base/text.hpp"
#include "forge/catalogue.hpp"
#include "forge/plugin.hpp"
#include "operator/operator.hpp"
#include "toolchain/reference_kernel.hpp"
#include "toolchain/source.hpp"

namespace opforge {

#include "operators.inc"  // declares the functions and kRows

namespace {

// Declarations name their folder below the source root; ops/<group>/<op> when they leave it out.
std::string absolute_folder(const Operator& op) {
  Path folder(op.folder);
  if (folder.empty()) {
    folder = "ops";
    for (const std::string& part : split(op.signature.name, '.')) folder /= part;
  }
  return (folder.is_absolute() ? folder : source_root() / folder).string();
}

}  // namespace

Status add_operator(Catalogue& catalogue, Operator op) {
  op.folder = absolute_folder(op);
  add_reference_kernel(op);
  return catalogue.add(std::move(op));
}

Result<Catalogue> load_catalogue(std::span<const std::string> plugins) {
  Catalogue catalogue;
  for (const auto& row : kRows) {
    if (row.make != nullptr) OPFORGE_TRY(add_operator(catalogue, row.make()));
  }
  for (const std::string& path : plugin_paths(plugins)) {
    OPFORGE_ASSIGN(Plugin plugin, load_plugin(path));
    for (Operator& op : plugin.operators) {
      if (auto status = add_operator(catalogue, std::move(op)); !status) {
        status.error().message = fmt::format("plug-in {}: {}", path, status.error().message);
        return fail(std::move(status.error()));
      }
    }
  }
  return catalogue;
}

}  // namespace opforge
