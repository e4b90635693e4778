#include "toolchain/unserved_toolchain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.hpp"
#include "base/text.hpp"

namespace opforge {
namespace {

bool is_program(const Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Support UnservedToolchain::available() {
  std::vector<Path> candidates;
  if (const char* own = std::getenv(facts_.variable.c_str()); own != nullptr && *own != '\0') {
    candidates.emplace_back(own);
  } else {
    const char* search = std::getenv("PATH");
    for (const std::string& folder : split(search == nullptr ? "" : search, ':'))
      candidates.push_back(Path(folder) / facts_.compiler);
    candidates.insert(candidates.end(), facts_.places.begin(), facts_.places.end());
  }
  for (const Path& candidate : candidates) {
    if (!is_program(candidate)) continue;
    return Support::no(fmt::format("{} is there, but {}", candidate.string(), facts_.missing));
  }
  return Support::no(fmt::format("no {} (looked at {}, PATH and {}): {}", facts_.compiler,
                                 facts_.variable, fmt::join(facts_.places, ", "), facts_.how));
}

Result<ToolchainStamp> UnservedToolchain::stamp() {
  return fail(Code::kUnavailable, available().reason(), "toolchain/unserved");
}

Status UnservedToolchain::fingerprint(const CompileRequest&, Fingerprint&) {
  return fail(Code::kUnavailable, available().reason(), "toolchain/unserved");
}

Result<Compiled> UnservedToolchain::compile(const CompileRequest&) {
  return fail(Code::kUnavailable, available().reason(), "toolchain/unserved");
}

}  // namespace opforge
