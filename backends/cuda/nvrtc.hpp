// NVRTC, opened at run time: the compiler of CUDA C++ that needs no host compiler and no GPU.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "artifact/artifact.hpp"
#include "base/dynlib.hpp"
#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge::cu {

// Where NVRTC and the toolkit's headers are looked for, in order.
struct NvrtcPlaces {
  std::vector<std::string> libraries;  // names and paths
  std::vector<Path> includes;          // folders with cuda_fp16.h
};
// OPFORGE_NVRTC (a library) and OPFORGE_CUDA_INCLUDE (a folder) alone where they are set. Else
// CUDA_HOME and CUDA_PATH, the loader's own search, /usr/local/cuda, the environment that `opforge
// doctor --install` makes, and the packages that pip
// installs (of VIRTUAL_ENV, the user, the system).
NvrtcPlaces nvrtc_places();

struct NvrtcSource {
  std::string text;
  std::vector<std::pair<std::string, std::string>>
      headers;  // (name as it is included, bytes): the only ones there are
  std::vector<std::string> options;
};
struct NvrtcOutput {
  std::string cubin;  // empty for a virtual architecture
  std::string ptx;
  std::string log;
};

class Nvrtc {
 public:
  static Result<std::unique_ptr<Nvrtc>> open(const std::vector<std::string>& libraries);

  int major() const { return major_; }
  int minor() const { return minor_; }
  const std::string& path() const { return path_; }  // with symlinks resolved
  // SHA-256 over the library and its builtins, by content; memoised by file identity.
  Result<Digest> digest() const;
  bool knows_arch(int arch) const;
  std::string known_archs() const;  // "75, 80, 86, ..."
  // Thread-safe. kToolchain with the compiler's own messages.
  Result<NvrtcOutput> compile(const NvrtcSource& source) const;

 private:
  using Program = struct ProgramOpaque*;
  struct Entries {
    const char* (*error)(int);
    int (*version)(int*, int*);
    int (*arch_count)(int*);
    int (*archs)(int*);
    int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
    int (*destroy)(Program*);
    int (*compile)(Program, int, const char* const*);
    int (*log_size)(Program, std::size_t*);
    int (*log)(Program, char*);
    int (*cubin_size)(Program, std::size_t*);
    int (*cubin)(Program, char*);
    int (*ptx_size)(Program, std::size_t*);
    int (*ptx)(Program, char*);
  };
  Status find_entries();
  static std::string text_of(Program program, int (*size)(Program, std::size_t*),
                             int (*get)(Program, char*));

  DynamicLibrary library_;
  Entries entries_{};
  std::string path_;
  int major_ = 0, minor_ = 0;
  std::vector<int> archs_;
};

// Headers of the toolkit that kernels may include by <...>, with what those include: cuda_fp16.h,
// cuda_bf16.h and the fp8, fp6, fp4 ones where the toolkit has them. Read from the first folder
// that has cuda_fp16.h; kToolchain names the folders.
Result<std::vector<std::pair<std::string, std::string>>> toolkit_headers(
    const std::vector<Path>& folders);
bool is_toolkit_header(std::string_view name);

// How to get NVRTC where there is none.
inline constexpr std::string_view kHowToGetNvrtc =
    "install the CUDA toolkit, or run `opforge doctor --install cuda`, or name the "
    "library in OPFORGE_NVRTC "
    "and the folder of cuda_fp16.h in OPFORGE_CUDA_INCLUDE";

}  // namespace opforge::cu
