#include "runtime/metrics.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <thread>

namespace opforge {
namespace {

class Metrics : public testing::Test {
 protected:
  void SetUp() override { reset_counts(); }
  void TearDown() override {
    set_fallback_hook({});
    reset_counts();
  }
};

TEST_F(Metrics, CountsByNamedFieldsAndResets) {
  count_fallback("a.b", Tier::kFast, Tier::kHighPrecision);
  count_fallback("a.b", Tier::kFast, Tier::kHighPrecision);
  count_fallback("a.b", Tier::kFast, Tier::kDeterministic);
  count_event("a.b", "unavailable");
  const auto fallbacks = fallback_counts();
  ASSERT_EQ(fallbacks.size(), 2u);
  EXPECT_EQ(fallbacks[0].op, "a.b");
  EXPECT_EQ(fallbacks[0].asked, Tier::kFast);
  EXPECT_EQ(fallbacks[0].used, Tier::kHighPrecision);
  EXPECT_EQ(fallbacks[0].count, 2u);
  EXPECT_EQ(fallbacks[1].used, Tier::kDeterministic);
  EXPECT_EQ(fallbacks[1].count, 1u);
  ASSERT_EQ(event_counts().size(), 1u);
  EXPECT_EQ(event_counts()[0].name, "unavailable");
  reset_counts();
  EXPECT_TRUE(fallback_counts().empty());
  EXPECT_TRUE(event_counts().empty());
}

TEST_F(Metrics, HookRunsOutsideTheLock) {
  int calls = 0;
  set_fallback_hook([&](std::string_view op, Contract asked, Tier used) {
    ++calls;
    EXPECT_EQ(op, "a.b");
    EXPECT_EQ(asked, Tier::kFast);
    EXPECT_EQ(used, Tier::kDeterministic);
    EXPECT_EQ(fallback_counts().size(), 1u);  // would deadlock under the lock
    count_event("a.b", "seen");
    set_fallback_hook({});  // may remove itself
  });
  count_fallback("a.b", Tier::kFast, Tier::kDeterministic);
  count_fallback("a.b", Tier::kFast, Tier::kDeterministic);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(event_counts().size(), 1u);
}

TEST_F(Metrics, ThreadsLoseNoCount) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 1000; ++i) count_event("a.b", "unproved");
      });
    }
  }
  EXPECT_EQ(event_counts()[0].count, 8000u);
}

TEST_F(Metrics, NamesAreBounded) {
  for (int i = 0; i < 5000; ++i) count_event("op." + std::to_string(i), "unavailable");
  EXPECT_LE(event_counts().size(), 4097u);
  std::uint64_t sum = 0;
  for (const NamedCount& row : event_counts()) sum += row.count;
  EXPECT_EQ(sum, 5000u);
}

// The grammar of OpenMetrics 1.0 as far as counters and gauges use it.
TEST_F(Metrics, TextIsOpenMetrics) {
  count_fallback("a.b", Tier::kFast, Tier::kHighPrecision);
  count_event("he said \"no\"\\\nand left\xff", "unavailable");
  const std::string text = metrics_text();
  EXPECT_NE(
      text.find("opforge_fallbacks_total{op=\"a.b\",asked=\"FAST\",used=\"HIGH_PRECISION\"} 1\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("op=\"he said \\\"no\\\"\\\\\\nand left?\",event=\"unavailable\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  EXPECT_EQ(text.find("# EOF"), text.size() - 6);
  const std::regex comment(R"(# (TYPE [a-z_]+ (counter|gauge)|HELP [a-z_]+ .+|EOF))");
  const std::regex sample(
      R"re(([a-z_]+)(\{[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*\})? [0-9]+)re");
  std::string line, family, type;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::smatch match;
    if (line[0] == '#') {
      ASSERT_TRUE(std::regex_match(line, comment)) << line;
      std::istringstream words(line);
      std::string hash, kind;
      words >> hash >> kind;
      if (kind == "TYPE") words >> family >> type;
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match[1], family + (type == "counter" ? "_total" : "")) << line;
  }
}

}  // namespace
}  // namespace opforge
