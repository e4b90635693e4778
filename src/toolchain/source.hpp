// Sources of kernels: where they lie, and the closed set of files that one kernel is made of.
#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/result.hpp"

namespace opforge {

// The folder with ops/, backends/*/include and src/ (for the reference's headers):
// OPFORGE_SOURCE_DIR, else <executable>/../share/opforge if it is there, else the folder that this
// program was built from.
Path source_root();
// The last of these; defined by the generated tables.
std::string_view build_source_dir();

// The files that a kernel is made of. Names are relative to the root they were found in, with '/'
// between parts.
struct SourceSet {
  std::vector<std::pair<std::string, std::string>> files;  // (name, bytes), sorted by name
  std::set<std::string> system_includes;  // names in <...>, for the toolchain to judge
  Status write_to(
      const Path& folder) const;  // lay the files out; #include "..." then finds all of them
};

// `sources` with everything they include by "...", looked for beside the including file, then in
// each root in order; the sources themselves lie in the first root. Every include line counts, also
// one that the preprocessor would skip: the set never depends on macros. kInvalidDeclaration names
// the file and the include when it is in no root, leaves its root, is made by a macro, or when one
// name means different files of two roots.
Result<SourceSet> source_set(std::span<const std::string> sources, std::span<const Path> roots);

// SHA-256 of a file's bytes, memoised for this process by device, inode, size, mtime and ctime.
Result<Digest> file_digest(const Path& path);

}  // namespace opforge
