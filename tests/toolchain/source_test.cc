#include "toolchain/source.hpp"

#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

using test::Folder;
using test::put;

std::vector<std::string> names(const SourceSet& set) {
  std::vector<std::string> list;
  for (const auto& [name, bytes] : set.files) list.push_back(name);
  return list;
}

Result<SourceSet> collect(const Folder& folder) {
  const std::vector<std::string> sources{"a.cc"};
  const std::vector<Path> roots{folder / "op", folder / "include"};
  return source_set(sources, roots);
}

TEST(SourceSet, FollowsIncludesThroughBothRoots) {
  Folder folder;
  put(folder / "op/a.cc", "#include \"sub/b.hpp\"\n#include \"lib.hpp\"\n#include <stdint.h>\n");
  put(folder / "op/sub/b.hpp", "#include \"c.hpp\"\n");
  put(folder / "op/sub/c.hpp", "#  include  \"../d.hpp\"\n");
  put(folder / "op/d.hpp", "");
  put(folder / "op/unused.hpp", "");
  put(folder / "include/lib.hpp", "#include <hwy/highway.h>\n");
  const auto set = collect(folder);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(names(*set),
            (std::vector<std::string>{"a.cc", "d.hpp", "lib.hpp", "sub/b.hpp", "sub/c.hpp"}));
  EXPECT_EQ(set->system_includes, (std::set<std::string>{"hwy/highway.h", "stdint.h"}));
}

TEST(SourceSet, IgnoresCommentsAndStringsButNotConditions) {
  Folder folder;
  put(folder / "op/a.cc",
      "// #include \"no.hpp\"\n/* \n#include \"no.hpp\"\n*/\nconst char* s = \"/*\";\n#if "
      "0\n#include \"b.hpp\" // yes\n#endif\n"
      "int big = 1'000; // '\n#inc\\\nlude \"c.hpp\"\n");
  put(folder / "op/b.hpp", "");
  put(folder / "op/c.hpp", "");
  const auto set = collect(folder);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(names(*set), (std::vector<std::string>{"a.cc", "b.hpp", "c.hpp"}));
}

TEST(SourceSet, RefusesWhatItsKeyWouldNotCover) {
  const struct {
    const char* source;
    const char* named;
  } kCases[] = {{"#include \"missing.hpp\"\n", "missing.hpp"},
                {"#include \"../outside.hpp\"\n", "outside.hpp"},
                {"#include \"/etc/hostname\"\n", "/etc/hostname"},
                {"#define H \"b.hpp\"\n#include H\n", "#include H"},
                {"#include \"both.hpp\"\n#include \"sub/x.hpp\"\n", "both.hpp"}};
  for (const auto& test : kCases) {
    Folder folder;
    put(folder / "outside.hpp", "");
    put(folder / "include/both.hpp", "");
    put(folder / "include/sub/x.hpp", "#include \"../both.hpp\"\n");
    put(folder / "op/both.hpp", "");
    put(folder / "op/a.cc", test.source);
    const auto set = collect(folder);
    ASSERT_FALSE(set) << test.source;
    EXPECT_EQ(set.error().code, Code::kInvalidDeclaration);
    EXPECT_NE(set.error().message.find(test.named), std::string::npos) << set.error().message;
  }
}

TEST(SourceSet, NamesAMissingSource) {
  Folder folder;
  const auto set = collect(folder);
  ASSERT_FALSE(set);
  EXPECT_NE(set.error().message.find("a.cc"), std::string::npos);
}

TEST(SourceRoot, CanBeNamed) {
  const test::Setting setting("OPFORGE_SOURCE_DIR", "/somewhere/else");
  EXPECT_EQ(source_root(), Path("/somewhere/else"));
}

TEST(FileDigest, SeesNewBytesUnderAnOlderTime) {
  Folder folder;
  put(folder / "header.hpp", "one");
  const auto before = std::filesystem::last_write_time(folder / "header.hpp");
  const auto first = file_digest(folder / "header.hpp");
  put(folder / "next", "two");
  std::filesystem::rename(folder / "next", folder / "header.hpp");
  std::filesystem::last_write_time(folder / "header.hpp", before - std::chrono::hours(24));
  const auto second = file_digest(folder / "header.hpp");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, sha256(std::string_view("one")));
  EXPECT_EQ(*second, sha256(std::string_view("two")));
}

}  // namespace
}  // namespace opforge
