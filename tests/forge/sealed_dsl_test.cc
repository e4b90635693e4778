// Sealed means sealed for the compilers of DSLs too: with failing stand-ins for every compiler in
// PATH and an interpreter that leaves a mark, nothing of them is started.
#include <gtest/gtest.h>

#include "forge/catalogue.hpp"
#include "forge/compile.hpp"
#include "runtime/seal.hpp"
#include "toolchain/dsl_fixture.hpp"

namespace opforge::test {
namespace {

// Exit status 0 when every kernel of the catalogue that a DSL serves was refused as sealed.
int refuse_all(const Folder& folder, bool sealed) {
  const auto catalogue = load_catalogue();
  if (!catalogue) return 2;
  develop();
  if (sealed) seal();
  auto store = Store::open(folder / "store");
  if (!store) return 3;
  const Target target = *parse_target("sm_90a");
  int asked = 0;
  for (const Operator* op : catalogue->all()) {
    for (const KernelDecl& kernel : op->kernels) {
      if (!std::filesystem::exists(folder / "data/venvs" / kernel.backend)) continue;
      const DTypeCombo& dtypes = kernel.dtypes.empty() ? op->signature.dtypes[0] : kernel.dtypes[0];
      const ShapeRequest shape{op->cases.back().dims, op->cases.back().attributes, dtypes};
      const auto variants = default_variants(*op, kernel, shape, target);
      if (!variants || variants->empty()) continue;
      const auto code = obtain(*op, kernel, variants->front(), *store, nullptr);
      if (code || code.error().code != Code::kCompilationSealed) return 4;
      ++asked;
    }
  }
  return asked > 0 ? 0 : 5;
}

TEST(SealedDsl, NoCompilerIsStarted) {
  Folder folder;
  make_venv(folder / "data/venvs/triton", "triton", "3.9.0");
  for (const char* name : {"python3", "python", "nvcc", "cc", "c++", "g++", "tileiras", "ptxas"}) {
    const Path program = folder / "bin" / name;
    put(program, "#!/bin/sh\n: > " + (folder / "was_started").string() + "\nexit 1\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  const Setting path("PATH", (folder / "bin").string());
  const Setting data("OPFORGE_DATA_DIR", (folder / "data").string());
  testing::FLAGS_gtest_death_test_style = "fast";
  EXPECT_EXIT(std::exit(refuse_all(folder, true)), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "was_started"));
  EXPECT_FALSE(std::filesystem::exists(folder / "data/venvs/triton/was_started"));
  // The same requests outside the seal do start the interpreter: the marks mean something.
  EXPECT_EXIT(std::exit(refuse_all(folder, false)), testing::ExitedWithCode(4), "");
  EXPECT_TRUE(std::filesystem::exists(folder / "data/venvs/triton/was_started"));
}

}  // namespace
}  // namespace opforge::test
