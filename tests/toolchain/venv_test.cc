// Environments of DSLs: found, identified and refused without running Python.
#include "toolchain/venv.hpp"

#include <gtest/gtest.h>

#include "toolchain/dsl_fixture.hpp"
#include "toolchain/dsl_toolchain.hpp"

namespace opforge::test {
namespace {

class ToyToolchain : public DslToolchain {
 public:
  ToyToolchain() : DslToolchain(info()) {}
  static DslInfo info() {
    DslInfo info;
    info.backend = info.package = "toy";
    info.minors = {"3.6", "3.9"};
    return info;
  }
  bool serves(const Target&) const override { return true; }
  Result<Compiled> compile(const CompileRequest& request) override {
    OPFORGE_ASSIGN(const DslAnswer answer, ask(request, nlohmann::json::object()));
    return Compiled{};
  }
};

class Environments : public testing::Test {
 protected:
  Environments() : data_("OPFORGE_DATA_DIR", folder_.path().string()) {}
  Path venv() const { return folder_ / "venvs/toy"; }
  static void expect_missing(std::string_view part) {
    const auto found = find_venv("toy");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::kToolchain);
    EXPECT_NE(found.error().message.find(part), std::string::npos) << found.error().message;
    EXPECT_NE(found.error().message.find("opforge doctor --install toy"), std::string::npos)
        << found.error().message;
  }
  Folder folder_;
  Setting data_;
};

TEST_F(Environments, WhereTheyAre) {
  EXPECT_EQ(venv_folder("toy"), folder_.path() / "venvs" / "toy");
  const Setting own("OPFORGE_VENV_TOY", "/elsewhere");
  EXPECT_EQ(venv_folder("toy"), Path("/elsewhere"));
  const Setting none("OPFORGE_DATA_DIR", ""), xdg("XDG_DATA_HOME", "/xdg");
  EXPECT_EQ(data_folder(), Path("/xdg/opforge"));
  const Setting no_xdg("XDG_DATA_HOME", ""), home("HOME", "/home/somebody");
  EXPECT_EQ(data_folder(), Path("/home/somebody/.local/share/opforge"));
}

TEST_F(Environments, MissingAndDamagedOnesSayHowToMakeThem) {
  expect_missing("is not installed");
  put(venv() / "pyvenv.cfg", "version = 3.11.2\n");
  expect_missing("no interpreter");
  make_venv(venv(), "toy", "3.9.0");
  ASSERT_TRUE(find_venv("toy"));
  std::filesystem::create_directories(venv() / "lib/python3.11/site-packages/extra-1.dist-info");
  expect_missing("extra-1.dist-info");
  std::filesystem::remove_all(venv() / "lib");
  expect_missing("no lib/python3.*/site-packages");
}

TEST_F(Environments, OneDigestForTwoPlacesAnotherForOtherFiles) {
  make_venv(venv(), "toy", "3.9.0");
  const auto here = find_venv("toy");
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_EQ((*here)->packages.at("toy"), "3.9.0");
  EXPECT_EQ((*here)->python_version, "3.11.2");
  Folder second;
  make_venv(second / "other", "toy", "3.9.0");
  {
    const Setting own("OPFORGE_VENV_TOY", (second / "other").string());
    EXPECT_EQ((*find_venv("toy"))->digest, (*here)->digest);
  }
  make_venv(venv(), "toy", "3.9.0", "sha256=def");
  EXPECT_NE((*find_venv("toy"))->digest, (*here)->digest);
}

TEST_F(Environments, OtherVersionsAreRefusedWithTheServedOnesNamed) {
  ToyToolchain toolchain;
  EXPECT_FALSE(toolchain.available());
  make_venv(venv(), "toy", "3.7.1");
  const Support support = toolchain.available();
  ASSERT_FALSE(support);
  EXPECT_NE(support.reason().find("toy 3.7.1 is not served, 3.6 and 3.9 are"), std::string::npos)
      << support.reason();
  std::filesystem::remove_all(venv());
  make_venv(venv(), "another", "3.9.0");
  EXPECT_NE(toolchain.available().reason().find("has no toy"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(venv() / "was_started"));
}

TEST_F(Environments, KeysFollowTheSourcesAndTheScriptsAndNothingStarts) {
  make_venv(venv(), "toy", "3.9.0");
  Folder sources;
  put(sources / "backends/toy/worker.py", "VERSION = '3.9.0'\n");
  put(sources / "backends/toy/include/shared.py", "X = 1\n");
  put(sources / "src/toolchain/opforge_worker.py", "\n");
  const Setting root("OPFORGE_SOURCE_DIR", sources.path().string());
  put(sources / "op/toy.py", "import toy\nimport helper\nimport shared\n");
  put(sources / "op/helper.py", "X = 1\n");
  Operator op = scale_rows(sources / "op");
  op.kernels[0].backend = "toy";
  op.kernels[0].sources = {"toy.py"};
  ToyToolchain toolchain;
  ASSERT_TRUE(toolchain.available()) << toolchain.available().reason();
  const auto key = [&] {
    CompileRequest request;
    request.op = &op;
    request.kernel = &op.kernels[0];
    request.variant = cpu_variant(op);
    request.target = *parse_target("sm_90a");
    return *code_key(toolchain, request);
  };
  const Digest first = key();
  EXPECT_EQ(key(), first);
  put(sources / "op/unrelated.py", "X = 1\n");
  EXPECT_EQ(key(), first);
  for (const char* name :
       {"op/helper.py", "backends/toy/include/shared.py", "op/toy.py", "backends/toy/worker.py"}) {
    const Digest before = key();
    const auto text = read_file(sources / name);
    put(sources / name, *text + "Y = 2\n");
    EXPECT_NE(key(), before) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(venv() / "was_started"));
}

}  // namespace
}  // namespace opforge::test
