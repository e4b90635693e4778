// Backends that cannot compile yet say what is missing, with and without their compiler.
#include <gtest/gtest.h>

#include "toolchain/dsl_fixture.hpp"
#include "toolchain/unserved_toolchain.hpp"

namespace opforge::test {
namespace {

TEST(Unserved, SaysWhatIsMissingAndCompilesNothing) {
  Folder folder;
  UnservedToolchain toolchain({.backend = "toy",
                               .compiler = "toycc",
                               .variable = "OPFORGE_TOYCC",
                               .places = {"/opt/toy/toycc"},
                               .how = "install it",
                               .missing = "nothing launches its code"});
  EXPECT_FALSE(toolchain.serves(*parse_target("sm_90a")));
  EXPECT_NE(toolchain.available().reason().find("no toycc (looked at OPFORGE_TOYCC, PATH and "
                                                "/opt/toy/toycc): install it"),
            std::string::npos)
      << toolchain.available().reason();
  put(folder / "toycc", "#!/bin/sh\n");
  std::filesystem::permissions(folder / "toycc", std::filesystem::perms::owner_all);
  const Setting named("OPFORGE_TOYCC", (folder / "toycc").string());
  const Support there = toolchain.available();
  EXPECT_FALSE(there);
  EXPECT_NE(there.reason().find("is there, but nothing launches its code"), std::string::npos);
  EXPECT_EQ(toolchain.compile({}).error().code, Code::kUnavailable);
  EXPECT_EQ(toolchain.stamp().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace opforge::test
