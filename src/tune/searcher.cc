#include "tune/searcher.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/text.hpp"
#include "verify/inputs.hpp"

namespace opforge {
namespace {

// Every index once, each proposed with the tuner's own number of rounds.
class Exhaustive final : public Searcher {
 public:
  explicit Exhaustive(const SearchRequest& request) : size_(request.space.size()) {}
  std::string_view name() const override { return "exhaustive"; }
  std::vector<Proposal> next(std::span<const Tried>, std::size_t most) override {
    std::vector<Proposal> proposals;
    while (proposals.size() < most && next_ < size_) proposals.push_back({next_++, 0});
    return proposals;
  }

 private:
  std::size_t size_, next_ = 0;
};

std::vector<std::size_t> shuffled(std::size_t count, Random& random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  }
  return order;
}

// Greedy stratification: of a shuffled space, always the candidate whose values were used least so
// far. Any prefix is then spread evenly over the values of each tunable and over the kernels,
// whatever the constraints cut away.
class StratifiedRandom final : public Searcher {
 public:
  explicit StratifiedRandom(const SearchRequest& request)
      : space_(request.space), random_(request.seed) {
    left_ = shuffled(space_.size(), random_);
  }
  std::string_view name() const override { return "random"; }
  std::vector<Proposal> next(std::span<const Tried> history, std::size_t most) override {
    std::set<std::size_t> tried;
    for (const Tried& one : history) tried.insert(one.index);
    std::erase_if(left_, [&](std::size_t index) { return tried.contains(index); });
    std::vector<Proposal> proposals;
    while (proposals.size() < most && !left_.empty()) {
      const auto least = std::min_element(
          left_.begin(), left_.end(),
          [&](std::size_t a, std::size_t b) { return crowding(space_[a]) < crowding(space_[b]); });
      const std::size_t index = *least;
      left_.erase(least);
      count(space_[index]);
      proposals.push_back({index, 0});
    }
    return proposals;
  }

 private:
  using Key = std::pair<std::string, std::string>;
  std::size_t crowding(const Variant& variant) const {
    std::size_t total = used(Key{"", variant.kernel});
    for (const auto& [name, value] : variant.values)
      total += used(Key{variant.kernel + "/" + name, to_string(value)});
    return total;
  }
  std::size_t used(const Key& key) const {
    const auto found = used_.find(key);
    return found == used_.end() ? 0 : found->second;
  }
  void count(const Variant& variant) {
    ++used_[Key{"", variant.kernel}];
    for (const auto& [name, value] : variant.values)
      ++used_[Key{variant.kernel + "/" + name, to_string(value)}];
  }

  std::span<const Variant> space_;
  Random random_;
  std::vector<std::size_t> left_;
  std::map<Key, std::size_t> used_;
};

// Hill climbing over neighbours of the best candidate so far.
class Local final : public Searcher {
 public:
  explicit Local(const SearchRequest& request)
      : space_(request.space), baseline_(request.baseline), fallback_(request) {
    for (const Variant& variant : space_) {
      for (const auto& [name, value] : variant.values) values_[variant.kernel][name].insert(value);
    }
  }
  std::string_view name() const override { return "local"; }
  std::vector<Proposal> next(std::span<const Tried> history, std::size_t most) override {
    std::set<std::size_t> tried;
    std::vector<std::pair<double, std::size_t>> ranked;
    for (const Tried& one : history) {
      tried.insert(one.index);
      if (one.measured) ranked.emplace_back(one.ratio, one.index);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<Proposal> proposals;
    if (baseline_ < space_.size()) take(baseline_, tried, proposals, most);
    // Around the best; only when that is exhausted around the next best, so that ties are explored
    // too.
    for (std::size_t i = 0; i < ranked.size() && i < 3 && proposals.empty(); ++i) {
      for (std::size_t index : neighbours(ranked[i].second)) take(index, tried, proposals, most);
    }
    if (proposals.empty()) return fallback_.next(history, std::min<std::size_t>(most, 4));
    return proposals;
  }

 private:
  static void take(std::size_t index, std::set<std::size_t>& tried, std::vector<Proposal>& into,
                   std::size_t most) {
    if (into.size() < most && tried.insert(index).second) into.push_back({index, 0});
  }

  // Candidates of the same kernel that differ in one tunable by one step of its values.
  std::vector<std::size_t> neighbours(std::size_t of) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < space_.size(); ++i) {
      if (i != of && steps_between(space_[i], space_[of]) == 1) found.push_back(i);
    }
    return found;
  }

  std::size_t steps_between(const Variant& a, const Variant& b) const {
    if (a.kernel != b.kernel || a.values.size() != b.values.size())
      return std::numeric_limits<std::size_t>::max();
    std::size_t steps = 0;
    for (const auto& [name, value] : a.values) {
      const auto other = b.values.find(name);
      if (other == b.values.end()) return std::numeric_limits<std::size_t>::max();
      if (other->second == value) continue;
      const auto& known = values_.at(a.kernel).at(name);
      const auto at = std::distance(known.begin(), known.find(value)),
                 to = std::distance(known.begin(), known.find(other->second));
      steps += static_cast<std::size_t>(std::abs(at - to));
    }
    return steps;
  }

  std::span<const Variant> space_;
  std::size_t baseline_;
  StratifiedRandom fallback_;
  std::map<std::string, std::map<std::string, std::set<Value>, std::less<>>, std::less<>> values_;
};

constexpr std::size_t kFirstRounds = 5;  // the least that measuring makes

class Halving final : public Searcher {
 public:
  explicit Halving(const SearchRequest& request) : budget_(request.budget), random_(request) {}
  std::string_view name() const override { return "halving"; }
  std::vector<Proposal> next(std::span<const Tried> history, std::size_t most) override {
    if (pending_.empty() && !refill(history)) return {};
    std::vector<Proposal> proposals;
    while (proposals.size() < most && !pending_.empty()) {
      proposals.push_back(pending_.back());
      pending_.pop_back();
    }
    return proposals;
  }

 private:
  // The next rung: first as many random candidates as the budget allows, then the better half of
  // the last rung.
  bool refill(std::span<const Tried> history) {
    std::vector<std::pair<double, std::size_t>> ranked;
    if (rounds_ == 0) {
      rounds_ = kFirstRounds;
      pending_ = random_.next({}, budget_ > 0 ? budget_ : std::numeric_limits<std::size_t>::max());
      for (Proposal& proposal : pending_) proposal.rounds = rounds_;
    } else {
      for (const Tried& one : history) {
        if (one.measured && one.rounds == rounds_) ranked.emplace_back(one.ratio, one.index);
      }
      if (ranked.size() < 4) return false;  // few enough for the tuner's own final
      std::sort(ranked.begin(), ranked.end());
      rounds_ *= 2;
      for (std::size_t i = 0; i < ranked.size() / 2; ++i)
        pending_.push_back({ranked[i].second, rounds_});
    }
    std::reverse(pending_.begin(), pending_.end());
    return !pending_.empty();
  }

  std::size_t budget_, rounds_ = 0;
  StratifiedRandom random_;
  std::vector<Proposal> pending_;
};

class Auto final : public Searcher {
 public:
  explicit Auto(const SearchRequest& request)
      : all_(request.budget == 0 || request.space.size() <= request.budget),
        half_(request.budget / 2),
        exhaustive_(request),
        random_(request),
        local_(request) {}
  std::string_view name() const override { return "auto"; }
  std::vector<Proposal> next(std::span<const Tried> history, std::size_t most) override {
    if (all_) return exhaustive_.next(history, most);
    if (history.size() < half_)
      return random_.next(history, std::min(most, half_ - history.size()));
    return local_.next(history, most);
  }

 private:
  bool all_;
  std::size_t half_;
  Exhaustive exhaustive_;
  StratifiedRandom random_;
  Local local_;
};

}  // namespace

const std::vector<std::string>& searcher_names() {
  static const std::vector<std::string> names{"auto", "exhaustive", "random", "local", "halving"};
  return names;
}

Result<std::unique_ptr<Searcher>> make_searcher(std::string_view name,
                                                const SearchRequest& request) {
  if (name == "auto") return std::make_unique<Auto>(request);
  if (name == "exhaustive") return std::make_unique<Exhaustive>(request);
  if (name == "random") return std::make_unique<StratifiedRandom>(request);
  if (name == "local") return std::make_unique<Local>(request);
  if (name == "halving") return std::make_unique<Halving>(request);
  return fail(Code::kInvalidArgument,
              "unknown search '" + std::string(name) + "'; valid: " + join(searcher_names(), ", "),
              "tune/searcher");
}

}  // namespace opforge
