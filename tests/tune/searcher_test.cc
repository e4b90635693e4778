#include "tune/searcher.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace opforge {
namespace {

std::vector<Variant> grid(int a, int b) {
  std::vector<Variant> space;
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j < b; ++j) {
      Variant variant;
      variant.kernel = "k";
      variant.values = {{"A", i}, {"B", j}};
      space.push_back(variant);
    }
  }
  return space;
}

std::int64_t at(const Variant& variant, const char* name) {
  return std::get<std::int64_t>(variant.values.at(name));
}

// Runs a search with a planted objective; the history in the end.
template <class Objective>
std::vector<Tried> run(std::string_view name, const std::vector<Variant>& space, std::size_t budget,
                       const Objective& objective, std::uint64_t seed = 1) {
  auto searcher = make_searcher(name, {space, space.size(), budget, seed}).value();
  EXPECT_EQ(searcher->name(), name);
  std::vector<Tried> history;
  std::set<std::size_t> distinct;
  while (distinct.size() < budget) {
    const auto proposals =
        searcher->next(history, std::min<std::size_t>(4, budget - distinct.size()));
    if (proposals.empty()) break;
    EXPECT_LE(proposals.size(), 4u);
    for (const auto& one : proposals) {
      distinct.insert(one.index);
      history.push_back({one.index, one.rounds, true, objective(space[one.index])});
    }
  }
  return history;
}

std::set<std::size_t> indexes(const std::vector<Tried>& history) {
  std::set<std::size_t> all;
  for (const auto& one : history) all.insert(one.index);
  return all;
}

const auto kFlat = [](const Variant&) { return 1.0; };

TEST(Searcher, UnknownNameListsTheValidOnes) {
  const auto searcher = make_searcher("simulated", {});
  ASSERT_FALSE(searcher);
  for (const auto& name : searcher_names())
    EXPECT_NE(searcher.error().message.find(name), std::string::npos);
}

TEST(Searcher, ExhaustiveTriesAllOnceInOrder) {
  const auto space = grid(5, 3);
  const auto history = run("exhaustive", space, 100, kFlat);
  ASSERT_EQ(history.size(), 15u);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(history[i].index, i);
}

TEST(Searcher, RandomNeverRepeatsAndEndsWithTheSpace) {
  const auto space = grid(6, 7);
  const auto history = run("random", space, 1000, kFlat);
  EXPECT_EQ(history.size(), 42u);
  EXPECT_EQ(indexes(history).size(), 42u);
}

TEST(Searcher, RandomIsStratified) {
  const auto space = grid(6, 6);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::map<std::int64_t, int> a, b;
    for (const auto& one : run("random", space, 12, kFlat, seed)) {
      ++a[at(space[one.index], "A")];
      ++b[at(space[one.index], "B")];
    }
    for (std::int64_t value = 0; value < 6; ++value) {
      EXPECT_GE(a[value], 1) << seed;
      EXPECT_LE(a[value], 3) << seed;
      EXPECT_GE(b[value], 1) << seed;
    }
  }
}

TEST(Searcher, TheSameSeedGivesTheSameCandidates) {
  const auto space = grid(6, 7);
  const auto index_list = [&](std::uint64_t seed) {
    std::vector<std::size_t> list;
    for (const auto& one : run("random", space, 10, kFlat, seed)) list.push_back(one.index);
    return list;
  };
  EXPECT_EQ(index_list(5), index_list(5));
  EXPECT_NE(index_list(5), index_list(6));
}

TEST(Searcher, LocalFindsTheBottomOfABowlWithFewCandidates) {
  const auto space = grid(12, 12);
  const auto bowl = [](const Variant& v) {
    return 1 + 0.01 * (std::pow(at(v, "A") - 8.0, 2) + std::pow(at(v, "B") - 3.0, 2));
  };
  const auto history = run("local", space, 60, bowl);
  EXPECT_TRUE(indexes(history).contains(8 * 12 + 3));
  EXPECT_EQ(indexes(history).size(), history.size());
}

TEST(Searcher, LocalGoesOnAfterFailures) {
  const auto space = grid(4, 4);
  auto searcher = make_searcher("local", {space, 0, 16, 1}).value();
  std::vector<Tried> history;
  while (true) {
    const auto proposals = searcher->next(history, 3);
    if (proposals.empty()) break;
    for (const auto& one : proposals) history.push_back({one.index, 0, false, 0});
  }
  EXPECT_EQ(indexes(history).size(), 16u);
  EXPECT_EQ(history.front().index, 0u);  // the baseline first
}

TEST(Searcher, HalvingGivesTheBetterHalfMoreRounds) {
  const auto space = grid(4, 4);
  auto searcher = make_searcher("halving", {space, 16, 16, 3}).value();
  std::vector<Tried> history;
  std::map<std::size_t, std::set<std::size_t>> by_rounds;
  while (true) {
    const auto proposals = searcher->next(history, 5);
    if (proposals.empty()) break;
    for (const auto& one : proposals) {
      by_rounds[one.rounds].insert(one.index);
      history.push_back({one.index, one.rounds, true, 1.0 + static_cast<double>(one.index)});
    }
  }
  EXPECT_EQ(by_rounds[5].size(), 16u);
  EXPECT_EQ(by_rounds[10], (std::set<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(by_rounds[20], (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(by_rounds[40], (std::set<std::size_t>{0, 1}));
  EXPECT_EQ(by_rounds.size(), 4u);
}

TEST(Searcher, AutoIsExhaustiveWhenTheBudgetCoversTheSpace) {
  const auto space = grid(5, 5);
  EXPECT_EQ(run("auto", space, 25, kFlat).size(), 25u);
  const auto bowl = [](const Variant& v) {
    return 1 + 0.01 * std::pow(at(v, "A") - 9.0, 2) + 0.01 * std::pow(at(v, "B") - 9.0, 2);
  };
  const auto history = run("auto", grid(10, 10), 40, bowl);
  EXPECT_EQ(history.size(), 40u);
  EXPECT_TRUE(indexes(history).contains(99));
}

}  // namespace
}  // namespace opforge
