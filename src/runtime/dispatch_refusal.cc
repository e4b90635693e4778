// Why no rung serves a call: the value Unavailable, or the error that fits, with the nearest
// entries.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "runtime/dispatch.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "runtime/dispatch";
constexpr std::size_t kNearestShown = 5;

}  // namespace

std::string Dispatch::call_text() const {
  const DeviceInfo& device = question_.device;
  return fmt::format("{} as {} on {}{}", describe_call(question_.view.signature(), question_.call),
                     tier_name(question_.asked), device_name(device.device),
                     device.model.empty() ? "" : fmt::format(" ({})", device.model));
}

// Those that got furthest, each with what stopped it.
std::string Dispatch::nearest_text() const {
  std::vector<std::size_t> order;
  const std::string& named = question_.options.backend;
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    const bool asked =
        named.empty() || question_.view.artifacts[i].artifact->variant.backend == named;
    if (asked) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return verdicts_[a].stage > verdicts_[b].stage;
  });
  std::string text;
  for (std::size_t n = 0; n < std::min(order.size(), kNearestShown); ++n) {
    const OfferedArtifact& offered = question_.view.artifacts[order[n]];
    text += fmt::format("\n  {} in {}: {}", to_string(offered.artifact->variant),
                        question_.view.sections[offered.section].source->name(),
                        verdicts_[order[n]].reason);
  }
  if (order.size() > kNearestShown)
    text += fmt::format("\n  and {} more", order.size() - kNearestShown);
  if (order.empty())
    text = named.empty() ? " nothing" : fmt::format(" nothing of backend {}", named);
  return text;
}

Dispatch::Refusal Dispatch::refusal() const {
  const std::string& named = question_.options.backend;
  const Verdict* furthest = nullptr;
  bool of_this_kind = false;
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    const OfferedArtifact& offered = question_.view.artifacts[i];
    if (!named.empty() && offered.artifact->variant.backend != named) continue;
    of_this_kind = of_this_kind || offered.target.device == question_.device.device.kind;
    if (furthest == nullptr || verdicts_[i].stage > furthest->stage) furthest = &verdicts_[i];
  }
  const Stage stage = furthest == nullptr ? Stage::kForeign : furthest->stage;
  const std::string& op = question_.view.signature().name;
  const auto error = [](Code code, std::string text) {
    return Refusal{std::nullopt, Error{code, std::move(text), kWhere}};
  };

  // A precondition that failed decides even where another candidate got as far as a plan that could
  // not be made.
  for (std::size_t i = 0; i < verdicts_.size(); ++i) {
    if (verdicts_[i].stage != Stage::kPrecondition) continue;
    if (!named.empty() && question_.view.artifacts[i].artifact->variant.backend != named) continue;
    return {Unavailable{op, verdicts_[i].reason}, std::nullopt};
  }
  if (!named.empty()) {
    return error(Code::kBackendNotEligible,
                 fmt::format("backend {} cannot serve {}:{}", named, call_text(), nearest_text()));
  }
  if (stage == Stage::kTier || stage == Stage::kProof ||
      (stage == Stage::kBitClass && bit_class_.target.empty())) {
    return error(Code::kContractUnsatisfied,
                 fmt::format("nothing is strict enough for {}; ask for a looser contract or add a "
                             "kernel. Nearest:{}",
                             call_text(), nearest_text()));
  }
  if (stage <= Stage::kDevice && of_this_kind) {
    std::set<std::string> targets;
    for (const OfferedArtifact& offered : question_.view.artifacts)
      targets.insert(offered.target.name);
    return error(
        Code::kIncompatible,
        fmt::format(
            "no code of {} runs on {} ({}, architecture {}): there is code for {}. Nearest:{}", op,
            device_name(question_.device.device), question_.device.model, question_.device.arch,
            join(std::vector<std::string>(targets.begin(), targets.end()), ", "), nearest_text()));
  }
  const bool away = question_.device.device.kind != DeviceKind::kCpu;
  if (away && !question_.sealed && !question_.development) {
    return {
        Unavailable{op, fmt::format("nothing serves {}; nearest:{}", call_text(), nearest_text())},
        std::nullopt};
  }
  const std::string miss =
      fmt::format("{} would need a compile{}; build it into a pack. Nearest:{}", call_text(),
                  question_.sealed        ? ", and this process is sealed"
                  : question_.development ? ""
                                          : ", which production mode does not do",
                  nearest_text());
  return error(
      question_.development && !question_.sealed ? Code::kNotFound : Code::kCompilationSealed,
      miss);
}

}  // namespace opforge
