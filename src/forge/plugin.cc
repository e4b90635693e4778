#include "forge/plugin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "base/dynlib.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "forge/plugin";

// Loaded plug-ins are never unloaded: references are functions in them.
struct Loaded {
  std::mutex mutex;
  std::vector<DynamicLibrary> libraries;
  std::vector<std::string> paths;
};
Loaded& loaded() {
  static Loaded* const instance = new Loaded;
  return *instance;
}

Path absolute_path(const std::string& path) {
  std::error_code failed;
  const Path canonical = std::filesystem::canonical(path, failed);
  return failed ? Path(path) : canonical;
}

tl::unexpected<Error> incompatible(const Path& path, std::string_view why) {
  return fail(Code::kIncompatible, fmt::format("plug-in {}: {}", path.string(), why), kWhere);
}

Status check_same(const Path& path, const PluginV1& plugin) {
  if (!plugin.opforge_version || !plugin.library || !plugin.name || !plugin.operators) {
    return incompatible(path, "its entry returned an incomplete record: use OPFORGE_PLUGIN");
  }
  if (std::strcmp(plugin.opforge_version, kVersion) != 0) {
    return incompatible(
        path,
        fmt::format(
            "it was built with opforge {} but this is opforge {}: build it again with this version",
            plugin.opforge_version, kVersion));
  }
  if (std::strcmp(plugin.library, kPluginLibrary) != 0) {
    return incompatible(
        path,
        fmt::format(
            "it was built with {} but this opforge with {}: build it with the same C++ library",
            plugin.library, kPluginLibrary));
  }
  if (plugin.layout != kPluginLayout) {
    return incompatible(
        path,
        fmt::format(
            "its declarations have another layout than those of this opforge {} (built {:x}, here "
            "{:x}): build it again with the headers of this installation",
            kVersion, plugin.layout, kPluginLayout));
  }
  return {};
}

Result<std::vector<Operator>> make_operators(const Path& path, const PluginV1& plugin) {
  std::string why = "it has no operators";
  try {
    std::vector<Operator> operators = plugin.operators();
    if (!operators.empty()) return operators;
  } catch (const std::exception& error) {
    why = fmt::format("its function threw: {}", error.what());
  } catch (...) {
    why = "its function threw";
  }
  return fail(Code::kInvalidDeclaration, fmt::format("plug-in {}: {}", path.string(), why), kWhere);
}

}  // namespace

Result<Plugin> load_plugin(const std::string& given) {
  std::error_code failed;
  if (!std::filesystem::exists(given, failed)) {
    return fail(Code::kNotFound, fmt::format("plug-in {}: there is no such file", given), kWhere);
  }
  const Path path = absolute_path(given);
  const std::string candidates[] = {path.string()};
  auto library = DynamicLibrary::open_first(candidates);
  if (!library)
    return incompatible(path, fmt::format("it cannot be loaded: {}", library.error().message));
  const auto entry = reinterpret_cast<PluginEntry>(library->symbol(kPluginEntry));
  if (!entry)
    return incompatible(
        path, fmt::format("it has no function {}: it is no opforge plug-in", kPluginEntry));
  const PluginV1* record = entry();
  if (!record) return incompatible(path, "its entry returned nothing: use OPFORGE_PLUGIN");
  OPFORGE_TRY(check_same(path, *record));
  Plugin plugin{.name = record->name, .path = path.string(), .operators = {}};
  OPFORGE_ASSIGN(plugin.operators, make_operators(path, *record));
  for (Operator& op : plugin.operators) {
    Path folder(op.folder);
    if (folder.empty()) {
      folder = "ops";
      for (const std::string& part : split(op.signature.name, '.')) folder /= part;
    }
    if (folder.is_relative()) folder = path.parent_path() / folder;
    op.folder = folder.string();
  }
  const std::lock_guard lock(loaded().mutex);
  auto& paths = loaded().paths;
  if (std::find(paths.begin(), paths.end(), plugin.path) == paths.end())
    paths.push_back(plugin.path);
  loaded().libraries.push_back(std::move(*library));
  return plugin;
}

std::vector<std::string> plugin_paths(std::span<const std::string> named) {
  std::vector<std::string> paths(named.begin(), named.end());
  if (const char* variable = std::getenv("OPFORGE_PLUGINS")) {
    for (const std::string& path : split(variable, ':')) {
      if (!path.empty()) paths.push_back(path);
    }
  }
  std::error_code failed;
  const Path executable = std::filesystem::read_symlink("/proc/self/exe", failed);
  const Path folder = executable.parent_path().parent_path() / "lib" / "opforge" / "plugins";
  std::vector<std::string> installed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->path().extension() == ".so") installed.push_back(at->path().string());
  }
  std::sort(installed.begin(), installed.end());
  paths.insert(paths.end(), installed.begin(), installed.end());
  std::vector<std::string> once;
  for (const std::string& path : paths) {
    const std::string absolute = absolute_path(path).string();
    if (std::find(once.begin(), once.end(), absolute) == once.end()) once.push_back(absolute);
  }
  return once;
}

std::vector<std::string> loaded_plugins() {
  const std::lock_guard lock(loaded().mutex);
  return loaded().paths;
}

}  // namespace opforge
