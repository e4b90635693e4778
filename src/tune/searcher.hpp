// Which candidates to try next. A searcher sees what became of the earlier ones and knows nothing
// else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.hpp"

namespace opforge {

// A candidate by its index in the space, and how many rounds it is worth at first (0: the tuner's
// own choice).
struct Proposal {
  std::size_t index = 0;
  std::size_t rounds = 0;
  friend bool operator==(const Proposal&, const Proposal&) = default;
};

struct Tried {
  std::size_t index = 0;
  std::size_t rounds = 0;
  bool measured = false;  // false: it failed
  double ratio = 0;       // median of candidate / baseline; smaller is better
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  virtual std::string_view name() const = 0;
  // At most `most` proposals. Empty: the search is over. A candidate may be proposed again only
  // with more rounds.
  virtual std::vector<Proposal> next(std::span<const Tried> history, std::size_t most) = 0;
};

// "exhaustive": all, in the order of the space. "random": stratified, each value of each tunable
// about equally often. "local": from the baseline over neighbours (one tunable, one step), then
// from random places. "halving": many with few rounds, the better half with twice as many, and so
// on. "auto": exhaustive when `budget` covers the space, else random for the first half of the
// budget and local for the rest. kInvalidArgument lists the names. `space` must outlive the
// searcher.
struct SearchRequest {
  std::span<const Variant> space;
  std::size_t baseline =
      0;                   // index of the baseline in the space; space.size() when it is not in it
  std::size_t budget = 0;  // candidates that may be tried; 0: no limit
  std::uint64_t seed = 0;  // the same seed, the same proposals for the same history
};
Result<std::unique_ptr<Searcher>> make_searcher(std::string_view name,
                                                const SearchRequest& request);
const std::vector<std::string>& searcher_names();

}  // namespace opforge
