// The text of an OpenCL program: one file without includes, so that the same text can be compiled
// again on a machine that has nothing but the pack.
#pragma once

#include <string>

#include "toolchain/source.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge::ocl {

// `file` with every #include "..." replaced by the file it names, each once, with #line directives
// for the compiler's messages. Files are found beside the including one, then by their name.
Result<std::string> flatten(const SourceSet& files, const std::string& file);

struct GeneratedSource {
  std::string text;
  std::map<std::string, std::string> symbols;  // entry -> kernel name
};
// The program of a variant:
// - For each dtype variable T: the type T (float, half or, for bf16, ushort: memory only), T_BITS
// (an
//   unsigned type of that size), T_LOAD(p, i), T_STORE(p, i, f), and T_LOAD8 and T_STORE8 of
//   vectors.
// - V_<NAME> for each tunable, specialisation and baked attribute.
// - OPFORGE_KERNEL(entry), which a kernel's definition starts with: it gives the kernel its name
// and,
//   where the block follows from the variant alone, its group size.
// - The sources.
// - A prototype of each entry from its bindings: the compiler refuses a definition that differs.
//   Tensors are `global const T*`, or `global T*` where they are written; the workspace and null
//   are `global void*`.
Result<GeneratedSource> generate_source(const CompileRequest& request, const SourceSet& files);

}  // namespace opforge::ocl
