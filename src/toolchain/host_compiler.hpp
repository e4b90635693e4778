// The host's C++ compiler, as the toolchains of CPU code use it: found, identified by what really
// compiles, and run in a folder that holds nothing but the unit's own sources.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "toolchain/source.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

class HostCompiler {
 public:
  // OPFORGE_CXX (a program, with or without a path), else c++, g++ or clang++ in PATH. Looked up
  // again at each call, asked for its version once per file. kToolchain says what was tried and how
  // to get one.
  static Result<std::shared_ptr<const HostCompiler>> find();

  bool is_clang() const { return clang_; }
  const std::string& version() const { return version_; }  // "12.2.0"
  const Path& path() const { return path_; }
  // Name, version, and digest over the bytes of the driver, the compiler proper, the assembler and
  // the linker.
  Result<ToolchainStamp> stamp() const;
  // Digest over the bytes of files that the compiler links by name ("libgcc.a", "crti.o"); absent
  // ones are left out.
  Result<Digest> library_digest(std::span<const std::string> names) const;
  // Digest over the bytes of every header that <...> includes of these names read under these
  // flags. kToolchain with the compiler's own words where one is missing.
  Result<Digest> header_digest(const std::set<std::string>& names,
                               std::span<const std::string> flags) const;

  struct Unit {
    SourceSet sources;
    std::string text;  // the generated translation unit, which includes the kernel's source
    std::vector<std::string> flags;  // for compiling and linking
    std::string what;                // for messages: the variant
  };
  // Compile and link a shared object; returns its bytes, compiler warnings in `log`. The exit
  // status is read, and an empty or missing output is a failure with the compiler's last lines. A
  // header that header_digest() does not cover is an error that names it. Calls may_compile()
  // first.
  Result<std::string> build(const Unit& unit, std::string& log) const;

 private:
  Result<std::vector<Path>> headers(const std::set<std::string>& names,
                                    std::span<const std::string> flags) const;
  static std::string prefix_text(const std::set<std::string>& names);
  // Links the precompiled prefix into the folder, if there is one.
  void use_precompiled(const Unit& unit, const Path& folder) const;
  Path path_;
  bool clang_ = false;
  std::string version_;
  std::vector<Path> programs_;
};

// Load the code once, as production will, and find its symbols: damaged or unloadable code is never
// published.
Status load_test(std::string_view code, std::span<const std::string> symbols);

// `text`'s last lines, for messages.
std::string last_lines(std::string_view text, std::size_t most = 12);

}  // namespace opforge
