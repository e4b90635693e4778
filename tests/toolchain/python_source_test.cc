// The closed set of files of a kernel in Python.
#include "toolchain/python_source.hpp"

#include <gtest/gtest.h>

#include "toolchain/dsl_fixture.hpp"

namespace opforge::test {
namespace {

class PythonSource : public testing::Test {
 protected:
  Result<SourceSet> set(std::string_view kernel) {
    put(folder_ / "op/triton.py", kernel);
    const std::vector<std::string> sources{"triton.py"};
    const std::vector<Path> roots{folder_ / "op", folder_ / "include"};
    return python_source_set(sources, roots);
  }
  std::vector<std::string> names(std::string_view kernel) {
    const auto found = set(kernel);
    EXPECT_TRUE(found) << found.error().message;
    std::vector<std::string> out;
    for (const auto& [name, bytes] : found->files) out.push_back(name);
    return out;
  }
  Folder folder_;
};

using Names = std::vector<std::string>;

TEST_F(PythonSource, FollowsEveryFormOfImport) {
  for (const char* name : {"op/a.py", "op/b.py", "include/shared.py", "op/pack/__init__.py",
                           "op/pack/inner.py", "op/pack/other.py"}) {
    put(folder_ / name, "\n");
  }
  put(folder_ / "op/c.py", "from pack import inner\n");
  EXPECT_EQ(names("import triton\nimport triton.language as tl\n"), Names{"triton.py"});
  EXPECT_EQ(names("import a as x, b\n"), (Names{"a.py", "b.py", "triton.py"}));
  EXPECT_EQ(names("from shared import (f,\n    g)\n"), (Names{"shared.py", "triton.py"}));
  EXPECT_EQ(names("def f():\n    import c\n"),
            (Names{"c.py", "pack/__init__.py", "pack/inner.py", "triton.py"}));
  EXPECT_EQ(names("import pack.other\n"),
            (Names{"pack/__init__.py", "pack/other.py", "triton.py"}));
  EXPECT_EQ(names("if 1: import a\nx = 1; import b\n"), (Names{"a.py", "b.py", "triton.py"}));
  EXPECT_EQ(names("import \\\n  a\n"), (Names{"a.py", "triton.py"}));
  EXPECT_EQ(names("'''\nimport a\n'''\n# import b\nx = 'import b'\nimportant = 1\n"),
            Names{"triton.py"});
}

TEST_F(PythonSource, NamesWhatTheEnvironmentMustHave) {
  EXPECT_EQ(set("import triton\nfrom cuda.tile import x\n")->system_includes,
            (std::set<std::string>{"cuda", "triton"}));
}

TEST_F(PythonSource, WhatCannotBeKnownIsRefused) {
  put(folder_ / "op/a.py", "\n");
  put(folder_ / "op/twice.py", "\n");
  put(folder_ / "include/twice.py", "X = 1\n");
  const std::pair<const char*, const char*> cases[] = {
      {"from . import a\n", "relative import"},
      {"from .a import b\n", "relative import"},
      {"import importlib\nimportlib.import_module('a')\n", "importlib"},
      {"__import__('a')\n", "__import__"},
      {"import twice\n", "one name must mean one file"},
      {"x = '\xff'\n", "UTF-8"}};
  for (const auto& [text, part] : cases) {
    const auto found = set(text);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, Code::kInvalidDeclaration);
    EXPECT_NE(found.error().message.find(part), std::string::npos) << found.error().message;
  }
}

}  // namespace
}  // namespace opforge::test
