#include "tune/adopt.hpp"

#include <gtest/gtest.h>

namespace opforge {
namespace {

Reading reading(std::vector<double> samples) {
  Reading one;
  one.samples_us = std::move(samples);
  one.time_us = summarise(one.samples_us);
  return one;
}

Comparison comparison(std::vector<std::vector<double>> readings) {
  Comparison out;
  for (auto& samples : readings) out.readings.push_back(reading(std::move(samples)));
  for (const auto& one : out.readings)
    out.ratios.push_back(paired_ratio(one.samples_us, out.readings[0].samples_us));
  return out;
}

Contender contender(std::string_view name, std::int64_t registers = 0) {
  return {sha256(name), {.registers = registers}};
}

TEST(Adopt, FourOfFiveRoundsMustBeClearlyFaster) {
  // Ratios 0.90 x 8, 0.98 x 2: the 0.8-quantile of ten (position 7.2) is 0.90 + 0.2 * 0.08 = 0.916
  // < 0.9709.
  EXPECT_TRUE(
      clearly_faster(summarise(std::vector<double>{.9, .9, .9, .9, .9, .9, .9, .9, .98, .98})));
  // Five of ten at 0.98: p80 = 0.98.
  EXPECT_FALSE(
      clearly_faster(summarise(std::vector<double>{.9, .9, .9, .9, .9, .98, .98, .98, .98, .98})));
  EXPECT_FALSE(clearly_faster(summarise(std::vector<double>(9, 0.99))));
  EXPECT_FALSE(clearly_faster(Summary{}));
  EXPECT_TRUE(
      maybe_faster(summarise(std::vector<double>{.9, .9, .9, .9, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1})));
}

TEST(Adopt, APairThatDiffersFromItselfIsDisturbed) {
  EXPECT_FALSE(is_disturbed(summarise(std::vector<double>{.95, .99, 1, 1.01, 1.06})));
  EXPECT_TRUE(is_disturbed(summarise(std::vector<double>{.90, .91, .92, .93, .94})));
  EXPECT_TRUE(is_disturbed(summarise(std::vector<double>{1.04, 1.05, 1.06, 1.07, 1.08})));
}

TEST(Adopt, TheIncumbentStaysInsideTheNoise) {
  const auto decision = decide(comparison({{100, 100, 100}, {98, 99, 98}}),
                               std::vector{contender("base"), contender("a")});
  EXPECT_EQ(decision.winner, 0u);
  EXPECT_TRUE(decision.tied.empty());
}

TEST(Adopt, TheBestWins) {
  const auto decision = decide(comparison({{100, 100, 100}, {90, 91, 90}, {80, 80, 81}}),
                               std::vector{contender("base"), contender("a"), contender("b")});
  EXPECT_EQ(decision.winner, 2u);
  EXPECT_EQ(decision.tied, std::vector<std::size_t>{2});
  EXPECT_NEAR(decision.margin, 90.0 / 80 - 1, 1e-12);
}

TEST(Adopt, TiesGoToFewestResourcesWhateverTheOrder) {
  const std::vector<std::vector<double>> times{
      {100, 100, 100}, {80, 80, 80}, {79, 81, 80}, {81, 80, 79}};
  const auto one = decide(comparison(times), std::vector{contender("base"), contender("a", 40),
                                                         contender("b", 32), contender("c", 64)});
  EXPECT_EQ(one.winner, 2u);
  EXPECT_EQ(one.tied.size(), 3u);
  const auto other = decide(comparison(times), std::vector{contender("base"), contender("c", 64),
                                                           contender("a", 40), contender("b", 32)});
  EXPECT_EQ(other.winner, 3u);
}

// Of two equals the one with calmer rounds reaches the p80 and the other just does not: still a
// tie.
TEST(Adopt, ATieDoesNotDependOnWhoHadTheCalmerRounds) {
  const auto times =
      comparison({{100, 100, 100, 100, 100}, {90, 90, 90, 90, 90}, {90, 90, 90, 99, 99}});
  const auto decision =
      decide(times, std::vector{contender("base"), contender("a", 40), contender("b", 32)});
  EXPECT_EQ(decision.tied, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(decision.winner, 2u);
}

TEST(Adopt, EqualResourcesGoByCodeKey) {
  auto a = contender("a"), b = contender("b");
  EXPECT_NE(comes_before(a, b), comes_before(b, a));
  EXPECT_EQ(comes_before(a, b), a.code_key < b.code_key);
}

TEST(Adopt, ARejectedReadingNeverWins) {
  auto times = comparison({{100, 100, 100}, {10, 10, 10}, {90, 90, 90}});
  times.readings[1].rejected = "impossible";
  EXPECT_EQ(decide(times, std::vector{contender("base"), contender("a"), contender("b")}).winner,
            2u);
}

TEST(Adopt, FoldingTakesOutPreemptionsNowAndThen) {
  // Every third sample of the candidate is hit; its median in each block of three is not.
  auto times = comparison({{100, 100, 100, 100, 100, 100, 7}, {90, 90, 400, 90, 400, 90, 7}});
  times.rounds = 7;
  times.incumbent_again = times.readings[0].samples_us;
  EXPECT_FALSE(clearly_faster(times.ratios[1]));
  EXPECT_TRUE(is_promising(times));
  const auto folded = fold_rounds(times, 3);
  EXPECT_EQ(folded.rounds, 2u);
  EXPECT_EQ(folded.readings[1].samples_us, (std::vector<double>{90, 90}));
  EXPECT_TRUE(clearly_faster(folded.ratios[1]));
  EXPECT_EQ(fold_rounds(times, 4).rounds, 7u);  // not two blocks
  EXPECT_FALSE(is_promising(comparison({{100, 100}, {99, 99}})));
}

TEST(Adopt, FinalistsAreTheBestAndWhatMayEqualIt) {
  std::vector<Summary> ratios;
  std::vector<Contender> contenders;
  for (double r : {0.90, 1.0, 0.80, 0.81, 0.82, 0.95}) {
    ratios.push_back(summarise(std::vector<double>(5, r)));
    contenders.push_back(contender("c" + std::to_string(r), static_cast<std::int64_t>(r * 1000)));
  }
  contenders[4].resources.registers = 1;
  EXPECT_EQ(finalists(ratios, contenders, 0.01, 8), (std::vector<std::size_t>{2, 4, 3}));
  EXPECT_EQ(finalists(ratios, contenders, 0.01, 2), (std::vector<std::size_t>{2, 4}));
  EXPECT_TRUE(
      finalists(std::span(ratios).subspan(1, 1), std::span(contenders).subspan(1, 1), 0.01, 8)
          .empty());
}

}  // namespace
}  // namespace opforge
