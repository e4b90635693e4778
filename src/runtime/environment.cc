#include "runtime/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/log.hpp"
#include "base/text.hpp"

extern char** environ;

namespace opforge {

const std::vector<std::string>& known_variables() {
  static const std::vector<std::string>& names = *new std::vector<std::string>{
      "OPFORGE_BACKEND",      "OPFORGE_CACHE_DIR", "OPFORGE_CONFIG_DIR", "OPFORGE_CPU_LEVEL",
      "OPFORGE_CUDA_INCLUDE", "OPFORGE_CXX",       "OPFORGE_DATA_DIR",   "OPFORGE_HIPCC",
      "OPFORGE_LIBCUDA",      "OPFORGE_LIBNVML",   "OPFORGE_LIBOPENCL",  "OPFORGE_MXCC",
      "OPFORGE_NVCC",         "OPFORGE_NVRTC",     "OPFORGE_PLUGINS",    "OPFORGE_PYTHON",
      "OPFORGE_SOURCE_DIR",   "OPFORGE_STATE_DIR", "OPFORGE_THREADS",    "OPFORGE_TRUST",
  };
  return names;
}

std::vector<std::string> unknown_variables() {
  constexpr std::string_view kPrefix = "OPFORGE_";
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.substr(0, kPrefix.size()) != kPrefix) continue;
    std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("OPFORGE_VENV_")) continue;  // one for each DSL: toolchain/venv.hpp
    if (!std::binary_search(known_variables().begin(), known_variables().end(), name))
      unknown.push_back(std::move(name));
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

void warn_of_unknown_variables() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto unknown = unknown_variables();
    if (unknown.empty()) return;
    std::vector<std::string> offers;
    for (const std::string& name : unknown) {
      const auto near = nearest_names(name, known_variables(), 1);
      offers.push_back(near.empty() ? name
                                    : fmt::format("{} (did you mean {}?)", name, near.front()));
    }
    log(LogLevel::kWarning, "runtime",
        fmt::format("these variables mean nothing: {}; valid are {}", join(offers, ", "),
                    join(known_variables(), ", ")));
  });
}

}  // namespace opforge
