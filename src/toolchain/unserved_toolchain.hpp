// A backend whose compiler this project cannot run yet: it says what is missing, and compiles
// nothing.
#pragma once

#include <string>
#include <vector>

#include "toolchain/toolchain.hpp"

namespace opforge {

class UnservedToolchain : public Toolchain {
 public:
  struct Facts {
    std::string backend;
    std::string compiler;             // "hipcc"
    std::string variable;             // that names it: "OPFORGE_HIPCC"
    std::vector<std::string> places;  // where it is looked for after PATH
    std::string how;                  // to get it
    std::string missing;              // what is missing even where the compiler is there
  };
  explicit UnservedToolchain(Facts facts) : facts_(std::move(facts)) {}
  std::string_view backend() const override { return facts_.backend; }
  bool serves(const Target&) const override { return false; }
  Support available()
      override;  // always no: without the compiler, how to get it; with it, the rest
  Result<ToolchainStamp> stamp() override;
  Status fingerprint(const CompileRequest& request, Fingerprint& into) override;
  Result<Compiled> compile(const CompileRequest& request) override;

 private:
  Facts facts_;
};

}  // namespace opforge
