// Making environments, with a stand-in for Python: what is run, what is left when it fails.
#include "toolchain/install.hpp"

#include <gtest/gtest.h>

#include "toolchain/dsl_fixture.hpp"
#include "toolchain/venv.hpp"

namespace opforge::test {
namespace {

// Answers like a Python with its venv module; "pip" puts a package where it was told to, or fails.
constexpr std::string_view kPython = R"(#!/bin/sh
if [ "$1" = -c ]; then echo ${FAKE_VERSION:-311}; echo "$0"; exit 0; fi
if [ "$2" = venv ]; then
  for last; do :; done
  mkdir -p "$last/bin" "$last/lib/python3.11/site-packages"
  echo "version = 3.11.2" > "$last/pyvenv.cfg"
  cp "$0" "$last/bin/python3"
  exit 0
fi
echo "$@" > "$FAKE_LOG"
[ -n "$FAKE_FAILS" ] && { echo "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" >&2; exit 1; }
site=$(dirname "$4")/../lib/python3.11/site-packages
mkdir -p "$site/toy-1.0.dist-info"
echo "toy/__init__.py,sha256=abc,1" > "$site/toy-1.0.dist-info/RECORD"
)";

class Install : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "python", kPython);
    std::filesystem::permissions(folder_ / "python", std::filesystem::perms::owner_all);
    put(folder_ / "src/backends/toy/requirements.txt", "toy==1.0 --hash=sha256:00\n");
    put(folder_ / "src/backends/toy/requirements-0.9.txt", "toy==0.9 --hash=sha256:00\n");
    put(folder_ / "src/backends/toy/stub/heavy/__init__.py", "X = 1\n");
    put(folder_ / "src/backends/other/toolchain.cc", "");
  }
  Folder folder_;
  Setting root_{"OPFORGE_SOURCE_DIR", (folder_ / "src").string()};
  Setting data_{"OPFORGE_DATA_DIR", (folder_ / "data").string()};
  Setting python_{"OPFORGE_PYTHON", (folder_ / "python").string()};
  Setting log_{"FAKE_LOG", (folder_ / "log").string()};
};

TEST_F(Install, MakesWhatFindVenvFinds) {
  bool made = false;
  const auto folder = install_environment("toy", {}, &made);
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_TRUE(made);
  const auto venv = find_venv("toy");
  ASSERT_TRUE(venv) << venv.error().message;
  EXPECT_EQ((*venv)->packages.at("toy"), "1.0");
  EXPECT_TRUE((*venv)->packages.contains("opforge-stand-ins"));
  EXPECT_TRUE(std::filesystem::exists((*venv)->site_packages / "heavy/__init__.py"));
  const auto arguments = read_file(folder_ / "log");
  for (const char* part : {"--require-hashes", "--no-deps", "toy/requirements.txt"})
    EXPECT_NE(arguments->find(part), std::string::npos) << *arguments;
  ASSERT_TRUE(install_environment("toy", {}, &made));
  EXPECT_FALSE(made);
  ASSERT_TRUE(install_environment("toy", {.again = true}, &made));
  EXPECT_TRUE(made);
  const auto older = install_environment("toy==0.9", {}, &made);
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_EQ(older->filename(), "toy-0.9");
}

TEST_F(Install, AFailureLeavesWhatWasThere) {
  ASSERT_TRUE(install_environment("toy", {}));
  const Digest before = (*find_venv("toy"))->digest;
  const Setting fails("FAKE_FAILS", "1");
  const auto again = install_environment("toy", {.again = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kToolchain);
  EXPECT_NE(again.error().message.find("DO NOT MATCH THE HASHES"), std::string::npos);
  EXPECT_EQ((*find_venv("toy"))->digest, before);
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "data/venvs"))
    entries += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(entries, 1u);
}

TEST_F(Install, SaysWhatItNeeds) {
  EXPECT_EQ(installable(), (std::vector<std::string>{"toy", "toy==0.9"}));
  const auto unknown = install_environment("other", {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_NE(unknown.error().message.find("there are toy, toy==0.9"), std::string::npos);
  {
    const Setting old("FAKE_VERSION", "309");
    const auto refused = install_environment("toy", {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("OPFORGE_PYTHON"), std::string::npos);
  }
  const Setting nowhere("OPFORGE_DATA_DIR", "/proc/none");
  EXPECT_FALSE(install_environment("toy", {}));
}

}  // namespace
}  // namespace opforge::test
