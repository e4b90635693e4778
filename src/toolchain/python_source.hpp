// The closed set of files that a kernel written in Python is made of.
#pragma once

#include <span>
#include <string>

#include "toolchain/source.hpp"

namespace opforge {

// `sources` with every module that they import, directly or through each other, and that is a file
// of the roots: "x.py" or "x/__init__.py", looked for in each root in order; the sources themselves
// lie in the first. Every import statement counts, also within functions. What is in no root is the
// environment's or Python's own, and stands in `system_includes` by its top name.
// kInvalidDeclaration for a relative import, one by name at run time (importlib, __import__), a
// name that means different files of two roots, and a file that is no UTF-8 text.
Result<SourceSet> python_source_set(std::span<const std::string> sources,
                                    std::span<const Path> roots);

}  // namespace opforge
