// When a candidate takes the incumbent's place. Pure functions over timed rounds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/measure.hpp"
#include "tune/trial.hpp"

namespace opforge {

// A candidate is taken when four of five paired rounds show it more than 3 % faster. A gain below
// that is not worth a change, and repeats of the same tune would not agree on it.
inline constexpr double kAdoptionGain = 1.03;
bool clearly_faster(const Summary& ratio);  // of candidate / incumbent: p80 < 1 / kAdoptionGain
// Could it be, were the noise on its side? Worth a final.
bool maybe_faster(const Summary& ratio);  // p20 < 1 / kAdoptionGain
// The A/A pair itself shows a "winner": these rounds prove nothing.
bool is_disturbed(const Summary& same_against_same);

struct Contender {
  Digest code_key;
  Resources resources;
};
// Fewest registers, shared, local and code bytes, then the code key: a choice among equals that no
// noise can change.
bool comes_before(const Contender& a, const Contender& b);

struct Decision {
  // Index in the comparison's readings (>= 1), or 0: the incumbent stays.
  std::size_t winner = 0;
  // Readings inside the noise of the best, canonically first first: the winner, then who may take
  // its place should fresh data not confirm it.
  std::vector<std::size_t> tied;
  double margin = 0;  // next best reading / winner by median, minus 1; 0 when there is none
  std::string why;    // one line
};
// `contenders` as the readings of `comparison`; the first is the incumbent. Readings that were
// rejected never win.
Decision decide(const Comparison& comparison, std::span<const Contender> contenders);

// Is the gain there in the median, and only the noise in the way? Worth a longer look.
bool is_promising(const Comparison& comparison);
// Blocks of `block` rounds made one, by each reading's median within the block: a preemption now
// and then no longer decides. A rest of fewer rounds is left out; too few rounds for two blocks
// stay as they are.
Comparison fold_rounds(Comparison comparison, std::size_t block);

// Of screened candidates, those worth a final round: the best, and canonically first those that may
// equal it. Indexes into `ratios`; empty when none can win. At most `most`.
std::vector<std::size_t> finalists(std::span<const Summary> ratios,
                                   std::span<const Contender> contenders, double noise,
                                   std::size_t most);

}  // namespace opforge
