// Source -> artifact. A backend folder implements it and exports one function; the forge's generated table lists them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "operator/operator.hpp"

namespace opforge {

struct CompileRequest {
  const Operator* op = nullptr;
  const KernelDecl* kernel = nullptr;
  Variant variant;         // values and baked attributes fixed
  Target target;
  Digest code_key;         // from Toolchain::fingerprint; entry symbols are made from it
};

struct Compiled {
  std::string code;
  CodeKind kind = CodeKind::kElfShared;
  std::map<std::string, std::string> symbols;
  LaunchRecord launch;     // usually the kernel's own; a DSL may fill it from metadata
  Resources resources;
  int min_driver = 0;
  std::string log;         // compiler warnings
};

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  virtual std::string_view backend() const = 0;                  // "cpu", "cuda", "reference"
  // Which targets it can compile for at all, e.g. sm_*, compute_*; never depends on the machine.
  virtual bool serves(const Target& target) const = 0;
  // Yes, or what is missing here and how to get it.
  virtual Support available() = 0;
  virtual Result<ToolchainStamp> stamp() = 0;                    // memoised
  // Adds every input that reaches the code of this variant: source bytes of the closed include set, options, values.
  virtual Status fingerprint(const CompileRequest& request, Fingerprint& into) = 0;
  // May be called from several threads. Calls may_compile() first.
  virtual Result<Compiled> compile(const CompileRequest& request) = 0;
};

std::span<Toolchain* const> all_toolchains();
Toolchain* find_toolchain(std::string_view backend, const Target& target);

// The code key of a variant: schema version, what of the declaration reaches the code, sources, toolchain, target.
Result<Digest> code_key(Toolchain& toolchain, CompileRequest& request);
// Source files of a kernel with everything they include from the closed roots (operator folder, `backend_include`),
// as (name, bytes), sorted. An include that is neither there nor in <...> system headers is an error that names it.
Result<std::vector<std::pair<std::string, std::string>>> source_closure(const Operator& op, const KernelDecl& kernel,
                                                                        const std::string& backend_include);
std::string entry_symbol(const Variant& variant, const Digest& code_key, std::string_view entry);

}  // namespace opforge
