// libcuda.so.1, opened at run time: where it was looked for, its entry points, and its errors by
// name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cuda_api.hpp"
#include "base/dynlib.hpp"
#include "base/result.hpp"

namespace opforge::cu {

struct Driver {
#define OPFORGE_CUDA_MEMBER(required, member, name, parameters) \
  CuResult(*member) parameters = nullptr;
  OPFORGE_CUDA_ENTRIES(OPFORGE_CUDA_MEMBER)
#undef OPFORGE_CUDA_MEMBER
  int version = 0;                          // 13000 for CUDA 13.0
  std::string path;                         // the library that was opened
  std::vector<std::string> attempts;        // "path: reason" of those that failed before it
  std::shared_ptr<DynamicLibrary> library;  // open as long as the entry points are used

  bool has_libraries() const {
    return library_load && library_kernel && library_unload && kernel_get && kernel_set;
  }
};

// Names and paths in the order in which they are tried: OPFORGE_LIBCUDA alone when it is set, else
// libcuda.so.1 by name and then the folders where vendors and containers put it.
std::vector<std::string> driver_candidates();

// Open and initialise (cuInit). The reason why not: the attempts, an entry point that is missing,
// or what cuInit said.
Result<Driver> load_driver(std::span<const std::string> candidates);

// The process's driver, loaded on first use; the same answer ever after. Thread-safe; lives until
// the process ends.
Result<const Driver*> process_driver();

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
std::string error_text(const Driver& driver, CuResult result);
// After such an error nothing works in this process any more; only a new process helps.
bool is_sticky(CuResult result);
// Ok, or an error of the fitting code: kOutOfMemory, kUnavailable (stream capture), kIncompatible,
// kCorrupt, kNotFound, kDriver. `what` says what was being done; the entry point and the driver's
// name and text for the error are added.
Status check(const Driver& driver, CuResult result, std::string_view entry, std::string_view what);
// "580 (CUDA 13.0)" for 13000: the oldest driver branch that serves this CUDA version.
std::string version_text(int version);

}  // namespace opforge::cu
