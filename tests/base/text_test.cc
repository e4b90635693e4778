#include "base/text.hpp"

#include <gtest/gtest.h>

#include "base/result.hpp"

namespace opforge {
namespace {

using Names = std::vector<std::string>;

TEST(Text, SplitJoinTrim) {
  EXPECT_EQ(split("a,b", ','), (Names{"a", "b"}));
  EXPECT_EQ(split("", ','), Names{});
  EXPECT_EQ(split(",a,", ','), (Names{"", "a", ""}));
  EXPECT_EQ(join(Names{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(Names{}, ", "), "");
  EXPECT_EQ(trim("  a b\t\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
}

TEST(Text, NearestNames) {
  const Names known{"elementwise.copy", "norm.layer_norm", "norm.rms_norm", "reduction.reduce_sum",
                    "reduction.softmax"};
  EXPECT_EQ(nearest_names("norm.rms_nrom", known, 1), Names{"norm.rms_norm"});
  EXPECT_EQ(nearest_names("softmax", known, 1), Names{"reduction.softmax"});
  EXPECT_EQ(nearest_names("Reduction.SoftMax", known, 1), Names{"reduction.softmax"});
  EXPECT_EQ(nearest_names("norm.layernorm", known, 2), (Names{"norm.layer_norm", "norm.rms_norm"}));
  EXPECT_EQ(nearest_names("x", known).size(), 3u);
  EXPECT_EQ(nearest_names("x", Names{"cpu", "cuda"}).size(), 2u);
  EXPECT_TRUE(nearest_names("x", Names{}).empty());
}

TEST(Result, CodesHaveDistinctStableNames) {
  EXPECT_EQ(code_name(Code::kCompilationSealed), "compilation_sealed");
  EXPECT_EQ(code_name(Code::kUnavailable), "unavailable");
  Names names;
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i)
    names.emplace_back(code_name(static_cast<Code>(i)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace opforge
