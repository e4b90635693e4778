#include "forge/plugin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.hpp"
#include "forge/catalogue.hpp"

namespace opforge {
namespace {

std::string plugin_file(const std::string& kind) {
  return OPFORGE_BINARY_DIR "/test_plugins/" + kind + ".so";
}

TEST(Plugin, LoadsItsOperators) {
  const auto plugin = load_plugin(plugin_file("good"));
  ASSERT_TRUE(plugin) << plugin.error().message;
  EXPECT_EQ(plugin->name, "sample");
  ASSERT_EQ(plugin->operators.size(), 2u);
  EXPECT_EQ(plugin->operators[0].signature.name, "outside.row_sum");
  EXPECT_NE(plugin->operators[0].reference, nullptr);
  ReferenceCall call;
  plugin->operators[0].reference(call);  // code of the plug-in, still there
  // Folders lie below the plug-in's own.
  const Path folder = std::filesystem::canonical(OPFORGE_BINARY_DIR "/test_plugins");
  EXPECT_EQ(plugin->operators[0].folder, (folder / "ops/outside/row_sum").string());
  EXPECT_EQ(plugin->operators[1].folder, (folder / "elsewhere/placed").string());
  const auto paths = loaded_plugins();
  EXPECT_EQ(std::count(paths.begin(), paths.end(), plugin->path), 1);
  EXPECT_TRUE(load_plugin(plugin_file("good")));  // again is fine
}

struct Row {
  const char* kind;
  Code code;
  std::vector<const char*> parts;
};

TEST(Plugin, RefusalsNameTheFileAndBothSides) {
  const Row rows[] = {
      {"old",
       Code::kIncompatible,
       {"built with opforge 0.0.7 but this is opforge ", kVersion, "build it again"}},
      {"other_library",
       Code::kIncompatible,
       {"built with libc++ but this opforge with ", kPluginLibrary}},
      {"other_layout", Code::kIncompatible, {"another layout", "build it again"}},
      {"incomplete", Code::kIncompatible, {"incomplete record"}},
      {"null_record", Code::kIncompatible, {"returned nothing"}},
      {"no_entry",
       Code::kIncompatible,
       {"it has no function opforge_plugin_v1: it is no opforge plug-in"}},
      {"empty", Code::kInvalidDeclaration, {"it has no operators"}},
      {"throws", Code::kInvalidDeclaration, {"its function threw: no luck today"}},
      {"absent", Code::kNotFound, {"there is no such file"}},
  };
  for (const Row& row : rows) {
    const auto plugin = load_plugin(plugin_file(row.kind));
    ASSERT_FALSE(plugin) << row.kind;
    EXPECT_EQ(plugin.error().code, row.code) << row.kind;
    const std::string& message = plugin.error().message;
    EXPECT_NE(message.find(std::string(row.kind) + ".so"), std::string::npos) << message;
    for (const char* part : row.parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(Plugin, FilesThatAreNoLibraries) {
  const auto folder = TempDir::create(std::filesystem::temp_directory_path());
  ASSERT_TRUE(folder);
  const Path text = folder->path() / "text.so", nothing = folder->path() / "nothing.so";
  ASSERT_TRUE(write_file_atomic(text, "this is not a shared object"));
  ASSERT_TRUE(write_file_atomic(nothing, ""));
  for (const Path& path : {text, nothing, folder->path()}) {
    const auto plugin = load_plugin(path.string());
    ASSERT_FALSE(plugin) << path;
    EXPECT_EQ(plugin.error().code, Code::kIncompatible);
    EXPECT_NE(plugin.error().message.find("it cannot be loaded"), std::string::npos)
        << plugin.error().message;
  }
}

class PluginEnvironment : public testing::Test {
 protected:
  void TearDown() override { unsetenv("OPFORGE_PLUGINS"); }
};

TEST_F(PluginEnvironment, NamedThenVariableEachOnce) {
  const std::string good = std::filesystem::canonical(plugin_file("good")).string();
  const std::string old = std::filesystem::canonical(plugin_file("old")).string();
  setenv("OPFORGE_PLUGINS", (":" + good + ":" + old + ":/nowhere/a.so:").c_str(), 1);
  const std::string named[] = {old};
  const auto paths = plugin_paths(named);
  ASSERT_GE(paths.size(), 3u);
  EXPECT_EQ(paths[0], old);
  EXPECT_EQ(paths[1], good);
  EXPECT_EQ(paths[2], "/nowhere/a.so");
  EXPECT_EQ(std::count(paths.begin(), paths.end(), old), 1);
}

TEST_F(PluginEnvironment, ABrokenPluginFailsTheCatalogueByName) {
  setenv("OPFORGE_PLUGINS", "/nowhere/a.so", 1);
  const auto missing = load_catalogue();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("/nowhere/a.so"), std::string::npos);
  unsetenv("OPFORGE_PLUGINS");
  const std::string invalid[] = {plugin_file("invalid")};
  const auto declared = load_catalogue(invalid);
  ASSERT_FALSE(declared);
  EXPECT_EQ(declared.error().code, Code::kInvalidDeclaration);
  EXPECT_NE(declared.error().message.find("invalid.so: outside.row_sum: no default contract"),
            std::string::npos)
      << declared.error().message;
}

}  // namespace
}  // namespace opforge
