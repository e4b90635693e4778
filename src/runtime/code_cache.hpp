// Code that is loaded on a device, shared by all plans of the process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/launcher.hpp"

namespace opforge {

// Code that no plan holds is kept up to this many, the longest unused going first.
inline constexpr std::size_t kUnusedCodeKept = 256;

// The loaded code of an artifact for {code digest, launcher, device}: found, or loaded from what
// `bytes()` gives. Two threads that meet the same new code load it once. Errors are those of
// `bytes` and Launcher::load; they are not kept.
Result<std::shared_ptr<LoadedCode>> load_code(Launcher& launcher, const Artifact& artifact,
                                              int ordinal, bool allow_ptx,
                                              const std::function<Result<std::string>()>& bytes);

// Is it loaded already? (While a stream is captured nothing is loaded.)
bool code_is_loaded(const Launcher& launcher, const Digest& code_digest, int ordinal);

// Code that a captured graph may launch later: never unloaded.
void pin_code(std::shared_ptr<LoadedCode> code);

struct CodeCacheCounts {
  std::size_t loaded = 0, pinned = 0;
};
CodeCacheCounts code_cache_counts();

}  // namespace opforge
