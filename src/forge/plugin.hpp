// Plug-ins: operators outside the tree, in a shared object with one C entry.
//
// A plug-in is built against the headers of one opforge (find_package(opforge), opforge_add_plugin)
// and holds declarations and references only: no code of opforge. C++ objects cross the border, so
// both sides must be of the same opforge and the same C++ standard library; that is checked before
// any of them is touched. A plug-in stays loaded until the process ends, since references are
// functions in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "operator/operator.hpp"

namespace opforge {

// What the entry returns. The fields up to `layout` stay as they are in every version of opforge.
struct PluginV1 {
  const char* opforge_version;  // of the headers that it was built with
  const char* library;          // C++ standard library and its ABI
  std::uint64_t layout;         // sizes of the types that cross the border
  const char* name;             // for messages
  std::vector<Operator> (*operators)();
};
inline constexpr char kPluginEntry[] = "opforge_plugin_v1";
using PluginEntry = const PluginV1* (*)();

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
inline constexpr char kPluginLibrary[] = "libstdc++ (C++11 ABI)";
#elif defined(__GLIBCXX__)
inline constexpr char kPluginLibrary[] = "libstdc++ (old ABI)";
#elif defined(_LIBCPP_VERSION)
inline constexpr char kPluginLibrary[] = "libc++";
#else
inline constexpr char kPluginLibrary[] = "another C++ library";
#endif
inline constexpr std::uint64_t kPluginLayout =
    ((sizeof(Operator) * 1009 + sizeof(Signature)) * 1009 + sizeof(KernelDecl)) * 1009 +
    sizeof(LaunchStep) * 31 + sizeof(Binding);

struct Plugin {
  std::string name;
  std::string path;  // absolute
  std::vector<Operator>
      operators;  // folders absolute: relative ones lie below the plug-in's own folder
};

// kNotFound for no such file; kIncompatible for one that cannot be loaded, has no entry, or is of
// another version or library (both sides named); kInvalidDeclaration when its function throws or it
// has no operators.
Result<Plugin> load_plugin(const std::string& path);

// The plug-ins of this process, each once: `named` (--plugin), those of OPFORGE_PLUGINS (':'
// separated), and *.so of the installed folder, <executable>/../lib/opforge/plugins.
std::vector<std::string> plugin_paths(std::span<const std::string> named);

// Absolute paths of the plug-ins that were loaded so far, for OPFORGE_PLUGINS of child processes.
std::vector<std::string> loaded_plugins();

}  // namespace opforge

// In one source file of a plug-in: OPFORGE_PLUGIN("myteam", make_operators), where make_operators
// returns std::vector<opforge::Operator>. opforge_add_plugin() generates this file.
#define OPFORGE_PLUGIN(plugin_name, function)                                                  \
  extern "C" __attribute__((visibility("default"))) const ::opforge::PluginV1*                 \
  opforge_plugin_v1() {                                                                        \
    static const ::opforge::PluginV1 plugin{::opforge::kVersion, ::opforge::kPluginLibrary,    \
                                            ::opforge::kPluginLayout, plugin_name, &function}; \
    return &plugin;                                                                            \
  }
