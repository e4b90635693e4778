#include "tune/tuner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/text.hpp"
#include "tune/tune_session.hpp"

namespace opforge {
namespace {

const KernelDecl* find_kernel(const Operator& op, std::string_view id) {
  for (const KernelDecl& kernel : op.kernels) {
    if (kernel.id == id) return &kernel;
  }
  return nullptr;
}

// For DETERMINISTIC only what gives the bits of the baseline: its kernel, and its values of
// tunables that change bits.
bool same_bit_class(const Operator& op, const Variant& variant, const Variant& baseline) {
  if (variant.kernel != baseline.kernel) return false;
  const KernelDecl* kernel = find_kernel(op, variant.kernel);
  if (kernel == nullptr) return false;
  return std::all_of(kernel->tunables.begin(), kernel->tunables.end(), [&](const Tunable& tunable) {
    if (!tunable.changes_bits) return true;
    const auto mine = variant.values.find(tunable.name),
               wanted = baseline.values.find(tunable.name);
    return mine != variant.values.end() && wanted != baseline.values.end() &&
           mine->second == wanted->second;
  });
}

std::vector<Variant> serving(const TuneRequest& request) {
  std::vector<Variant> space;
  for (const Variant& variant : request.space) {
    if (variant.target != request.target || !satisfies(variant.tier, request.contract)) continue;
    if (request.contract == Tier::kDeterministic &&
        !same_bit_class(*request.op, variant, request.baseline))
      continue;
    space.push_back(variant);
  }
  return space;
}

Status check_budget(const TuneBudget& budget) {
  if (budget.candidates && *budget.candidates < 1) {
    return fail(Code::kInvalidArgument,
                fmt::format("a budget of {} candidates allows nothing to be tried; give at least 1",
                            *budget.candidates),
                "tune");
  }
  for (const auto& [limit, name] :
       {std::pair{budget.wall_s, "wall"}, {budget.device_s, "device"}}) {
    if (limit && !(*limit > 0)) {
      return fail(
          Code::kInvalidArgument,
          fmt::format("a budget of {} {} seconds allows nothing to be tried; give more than 0",
                      *limit, name),
          "tune");
    }
  }
  return {};
}

Status check_request(const TuneRequest& request) {
  if (request.op == nullptr)
    return fail(Code::kInvalidArgument, "a tune needs an operator", "tune");
  OPFORGE_TRY(check_budget(request.budget));
  OPFORGE_TRY(make_searcher(request.search, {}));
  if (!request.hooks.key || !request.hooks.obtain)
    return fail(Code::kInternal, "a tune needs its hooks", "tune");
  if (!satisfies(request.baseline.tier, request.contract)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("the baseline {} is {}, which does not serve {}", to_string(request.baseline),
                    tier_name(request.baseline.tier), tier_name(request.contract)),
        "tune");
  }
  return {};
}

Result<TuneContext> make_context(const TuneRequest& request) {
  TuneContext context;
  context.op = request.op->signature.name;
  context.dims = request.shape.dims;
  context.dtypes = request.shape.dtypes;
  OPFORGE_ASSIGN(context.attributes,
                 bind_attributes(request.op->signature, request.shape.attributes));
  context.layout = request.layout;
  if (context.layout.empty()) {
    context.layout =
        join(std::vector<std::string>(request.op->signature.tensors.size(), "c16"), ",");
  }
  context.contract = request.contract;
  context.target = request.target;
  context.device_model = request.device.model;
  context.driver_version = request.device.driver_version;
  return context;
}

// A finished choice that still holds: made of what the code is today, with at least as much tried
// as is asked for now.
std::optional<ChoiceRecord> standing_choice(const TuneRequest& request,
                                            const TuneContext& context) {
  const auto stored = request.records->choice(context);
  if (!stored || !*stored) return std::nullopt;
  const ChoiceRecord& choice = **stored;
  const auto baseline = request.hooks.key(request.baseline),
             chosen = request.hooks.key(choice.variant);
  if (!baseline || !chosen || *baseline != choice.baseline_key || *chosen != choice.code_key ||
      choice.cache != request.cache)
    return std::nullopt;
  const auto size = static_cast<std::int64_t>(request.space.size());
  const std::int64_t asked =
      request.budget.candidates ? std::min(*request.budget.candidates, size) : size;
  const bool enough = choice.tried >= asked || request.budget.wall_s || request.budget.device_s;
  return enough && choice.space == size ? std::optional(choice) : std::nullopt;
}

// One tune of a context at a time. No lock (nullopt in the result) when the records are in memory,
// or when locks cannot be made: they only save work.
Result<std::optional<FileLock>> take_turn(const TuneRequest& request, const TuneContext& context) {
  if (request.records == nullptr || request.records->file().empty())
    return std::optional<FileLock>();
  const Path folder = request.records->file().parent_path() / "locks";
  if (!make_dirs(folder)) return std::optional<FileLock>();
  while (true) {
    auto lock = FileLock::acquire(folder / (context.digest().short_hex() + ".lock"), 100);
    if (lock) return std::optional<FileLock>(std::move(*lock));
    if (lock.error().code != Code::kTimeout) return std::optional<FileLock>();
    if (request.cancelled())
      return fail(Code::kCancelled,
                  "interrupted while waiting for another tune of " + context.describe(), "tune");
    if (request.progress) {
      TuneProgress progress;
      progress.phase = TuneProgress::Phase::kWaiting;
      request.progress(progress);
    }
  }
}

std::uint64_t seed_of(const TuneContext& context) {
  const Digest digest = context.digest();
  std::uint64_t seed;
  std::memcpy(&seed, digest.bytes.data(), sizeof seed);
  return seed;
}

}  // namespace

std::string_view tune_phase_name(TuneProgress::Phase phase) {
  switch (phase) {
    case TuneProgress::Phase::kWaiting:
      return "waiting for another tune";
    case TuneProgress::Phase::kStarting:
      return "starting";
    case TuneProgress::Phase::kBaseline:
      return "baseline";
    case TuneProgress::Phase::kSearching:
      return "searching";
    case TuneProgress::Phase::kFinal:
      return "final";
    case TuneProgress::Phase::kConfirming:
      return "confirming";
    case TuneProgress::Phase::kProving:
      return "proving";
  }
  return "unknown";
}

Result<TuneReport> tune(TuneRequest request) {
  OPFORGE_TRY(check_request(request));
  if (!request.cancelled) request.cancelled = interrupted;
  const std::size_t offered = request.space.size();
  request.space = serving(request);
  TuneReport report;
  OPFORGE_ASSIGN(report.context, make_context(request));
  if (request.space.empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("nothing to tune for {}: none of {} variants serves {} on {}",
                            report.context.describe(), offered, tier_name(request.contract),
                            request.target),
                "tune");
  }
  if (request.seed == 0) request.seed = seed_of(report.context);
  OPFORGE_ASSIGN(const std::optional<FileLock> turn, take_turn(request, report.context));
  if (request.records != nullptr && !request.again) {
    if (auto choice = standing_choice(request, report.context)) {
      report.choice = std::move(*choice);
      report.chosen = report.from_records = true;
      report.why = "measured before; nothing that it depends on has changed";
      return report;
    }
  }
  std::optional<WorkerEvaluator> worker;
  Evaluator* evaluator = request.evaluator;
  if (evaluator == nullptr) {
    WorkerOptions options = request.worker;
    options.cancelled = request.cancelled;
    if (request.budget.wall_s)
      options.time_limit_s = std::min(options.time_limit_s, std::max(1.0, *request.budget.wall_s));
    worker.emplace(EvaluationSetup{request.op, request.shape, request.device, request.cache,
                                   request.allow_ptx},
                   options);
    evaluator = &*worker;
  }
  TuneSession session(request, report, *evaluator);
  OPFORGE_TRY(session.run());
  return report;
}

std::vector<std::string> failure_lines(const TuneReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const TrialRecord& trial : report.trials) {
    if (trial.outcome == TrialOutcome::kMeasured) continue;
    by_reason[fmt::format("{}: {}", trial_outcome_name(trial.outcome), trial.reason)].push_back(
        to_string(trial.variant));
  }
  std::vector<std::string> lines;
  for (const auto& [reason, variants] : by_reason)
    lines.push_back(fmt::format("{} ({})", reason, join(variants, ", ")));
  return lines;
}

}  // namespace opforge
