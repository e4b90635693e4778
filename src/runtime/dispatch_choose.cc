// Choosing among the eligible: measured, by priority, the reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "runtime/dispatch.hpp"
#include "runtime/evaluate.hpp"

namespace opforge {
namespace {

double log_ratio(std::int64_t a, std::int64_t b) {
  return std::fabs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1)) /
                             static_cast<double>(std::max<std::int64_t>(b, 1))));
}

// Sum over dims of |log2 ratio|; infinite when the entry has other dims than the call.
double shape_distance(const ValueMap& measured, const ValueMap& asked) {
  if (measured.size() != asked.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const auto& [symbol, value] : asked) {
    const auto found = measured.find(symbol);
    if (found == measured.end()) return std::numeric_limits<double>::infinity();
    const auto* a = std::get_if<std::int64_t>(&value);
    const auto* b = std::get_if<std::int64_t>(&found->second);
    if (a == nullptr || b == nullptr) return std::numeric_limits<double>::infinity();
    sum += *a == *b ? 0 : std::max(log_ratio(*a, *b), 1e-12);
  }
  return sum;
}

std::string dims_text(const ValueMap& dims) {
  std::string text;
  for (const auto& [symbol, value] : dims)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", symbol, to_string(value));
  return text;
}

bool is_reference(const OfferedArtifact& offered) {
  return offered.artifact->variant.backend == kReferenceBackend;
}

// How far a variant's tunables are from the defaults at this call: how many differ, and by how
// much.
std::pair<std::size_t, double> default_distance(const Artifact& artifact,
                                                const ValueMap& defaults) {
  std::size_t differ = 0;
  double distance = 0;
  for (const auto& [name, value] : defaults) {
    const auto own = artifact.variant.values.find(name);
    if (own != artifact.variant.values.end() && own->second == value) continue;
    ++differ;
    const auto* wanted = std::get_if<std::int64_t>(&value);
    const auto* present =
        own == artifact.variant.values.end() ? nullptr : std::get_if<std::int64_t>(&own->second);
    if (wanted != nullptr && present != nullptr) distance += log_ratio(*wanted, *present);
  }
  return {differ, distance};
}

// Specialisations with the largest first: their values, negated, in declared order.
std::vector<std::int64_t> specialisation_order(const Artifact& artifact) {
  std::vector<std::int64_t> order;
  for (const Artifact::Default& tunable : artifact.defaults) {
    if (!tunable.specialisation) continue;
    const auto own = artifact.variant.values.find(tunable.name);
    const auto* value =
        own == artifact.variant.values.end() ? nullptr : std::get_if<std::int64_t>(&own->second);
    order.push_back(value == nullptr ? 0 : -*value);
  }
  return order;
}

}  // namespace

bool Dispatch::admits(std::size_t artifact, std::string_view backend) const {
  if (verdicts_[artifact].stage != Stage::kEligible) return false;
  const OfferedArtifact& offered = question_.view.artifacts[artifact];
  return backend.empty() ? !is_reference(offered) : offered.artifact->variant.backend == backend;
}

std::optional<Choice> Dispatch::measured(std::string_view backend) const {
  const std::string layout = layout_class(question_.call);
  // Of entries for the asked contract before those for a stricter one, the nearest shape, the
  // fastest, then canonically.
  using Order = std::tuple<int, double, double, Digest, std::size_t>;
  std::optional<Order> best;
  const TableEntry* best_entry = nullptr;
  for (const auto& section : question_.view.sections) {
    for (const TableEntry& entry : section.section->table) {
      if (!satisfies(entry.contract, question_.asked) || entry.dtypes != question_.call.dtypes ||
          entry.attributes != question_.call.attributes || entry.layout != layout ||
          entry.device_model != question_.device.model) {
        continue;
      }
      const double distance = shape_distance(entry.dims, question_.call.dims);
      if (std::isinf(distance)) continue;
      const auto [first, last] = question_.view.by_code_key.equal_range(entry.code_key);
      for (auto it = first; it != last; ++it) {
        const std::size_t i = it->second;
        const Variant& variant = question_.view.artifacts[i].artifact->variant;
        if (variant.target != entry.target || !admits(i, backend)) continue;
        const Order order{static_cast<int>(entry.contract), distance, entry.median_us,
                          entry.code_key, i};
        if (best && *best <= order) continue;
        best = order;
        best_entry = &entry;
      }
    }
  }
  if (!best) return std::nullopt;
  Choice choice;
  choice.artifact = std::get<4>(*best);
  choice.median_us = best_entry->median_us;
  const bool exact = std::get<1>(*best) == 0;
  choice.grade = exact ? Grade::kExact : Grade::kNearest;
  choice.why =
      exact ? fmt::format("measured fastest for {}: {:.2f} us", dims_text(best_entry->dims),
                          best_entry->median_us)
            : fmt::format("measured fastest for the nearest shape {}", dims_text(best_entry->dims));
  return choice;
}

std::optional<Choice> Dispatch::by_priority(std::string_view backend) const {
  const Signature& signature = question_.view.signature();
  std::vector<std::string> others;
  for (const OfferedArtifact& offered : question_.view.artifacts)
    others.push_back(offered.artifact->variant.backend);
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());

  Evaluator evaluator(signature, question_.call, question_.device);
  using Order =
      std::tuple<std::size_t, int, std::tuple<bool, int, bool>, std::pair<std::size_t, double>,
                 std::vector<std::int64_t>, std::size_t, Digest>;
  std::optional<Order> best;
  Choice choice;
  for (std::size_t i = 0; i < question_.view.artifacts.size(); ++i) {
    if (!admits(i, backend)) continue;
    const OfferedArtifact& offered = question_.view.artifacts[i];
    const Artifact& artifact = *offered.artifact;
    const auto& defaults = defaults_of(offered, evaluator);
    // A default that cannot be evaluated here is no reason to refuse code whose guards hold.
    const auto distance = default_distance(artifact, defaults ? *defaults : ValueMap{});
    Order order{backend_rank(signature, artifact.variant.backend, others),
                static_cast<int>(artifact.variant.tier),
                {offered.target.ptx, -offered.target.arch, !offered.target.arch_specific},
                distance,
                specialisation_order(artifact),
                offered.section,
                artifact.code_key};
    if (best && *best <= order) continue;
    choice.artifact = i;
    choice.why = distance.first == 0
                     ? "not measured: first by priority, default variant"
                     : "not measured: first by priority, nearest to the default variant";
    best = std::move(order);
  }
  if (!best) return std::nullopt;
  choice.grade =
      is_reference(question_.view.artifacts[choice.artifact]) ? Grade::kReference : Grade::kDefault;
  return choice;
}

std::optional<Choice> Dispatch::reference() const {
  auto choice = by_priority(kReferenceBackend);
  if (choice) choice->why = "no kernel serves this call: the reference does";
  return choice;
}

std::optional<Choice> Dispatch::finish(std::optional<Choice> choice) const {
  if (!choice) return choice;
  const OfferedArtifact& offered = question_.view.artifacts[choice->artifact];
  choice->unproved = verdicts_[choice->artifact].unproved;
  choice->staged = is_reference(offered) && question_.device.device.kind != DeviceKind::kCpu;
  if (offered.artifact->variant.tier == question_.asked) return choice;
  choice->fallback = true;
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    const Tier tier = question_.view.artifacts[i].artifact->variant.tier;
    if (verdicts_[i].stage == Stage::kEligible && tier == question_.asked) choice->fallback = false;
  }
  return choice;
}

std::optional<Choice> Dispatch::choose() const {
  const auto served_by = [this](std::string_view backend) {
    auto choice = measured(backend);
    return choice ? choice : by_priority(backend);
  };
  if (!question_.options.backend.empty()) {
    auto choice = served_by(question_.options.backend);
    if (choice)
      choice->why =
          fmt::format("backend {} named in the call; {}", question_.options.backend, choice->why);
    return finish(std::move(choice));
  }
  bool forced_unserved = false;
  if (!question_.forced.empty()) {
    if (auto choice = served_by(question_.forced)) {
      choice->why =
          fmt::format("backend {} forced for the process; {}", question_.forced, choice->why);
      return finish(std::move(choice));
    }
    forced_unserved = true;
  }
  auto choice = served_by({});
  if (!choice) {
    // What a kernel's precondition forbids is not done by the slowest code there is: the caller
    // routes elsewhere.
    const bool precondition =
        std::any_of(verdicts_.begin(), verdicts_.end(),
                    [](const Verdict& verdict) { return verdict.stage == Stage::kPrecondition; });
    if (!precondition) choice = reference();
  }
  if (choice) choice->forced_unserved = forced_unserved;
  return finish(std::move(choice));
}

}  // namespace opforge
