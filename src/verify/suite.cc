#include "verify/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "verify/bitwise.hpp"
#include "verify/compare.hpp"
#include "verify/proof.hpp"

namespace opforge {
namespace {

constexpr std::int64_t kSampledAbove =
    std::int64_t{1} << 20;  // elements: the reference then runs on some rows only

// Rows of a large trial that are judged: the ends, where 16- and 32-bit counts wrap, and random
// ones.
std::vector<std::int64_t> sampled_rows(std::int64_t rows, std::int64_t elements_per_row,
                                       std::uint64_t seed) {
  std::set<std::int64_t> out{0, 1, rows / 2, rows - 2, rows - 1, 65534, 65535, 65536};
  for (const std::int64_t wrap : {std::int64_t{1} << 31, std::int64_t{1} << 32}) {
    const std::int64_t row = wrap / std::max<std::int64_t>(elements_per_row, 1);
    out.insert({row - 1, row, row + 1});
  }
  Random random(seed);
  for (int i = 0; i < 16; ++i) out.insert(random.below(rows));
  std::vector<std::int64_t> inside;
  for (const std::int64_t row : out) {
    if (row >= 0 && row < rows) inside.push_back(row);
  }
  return inside;
}

class SuiteRun {
 public:
  SuiteRun(const Operator& op, LoadedSubject& subject, const SuiteOptions& options)
      : op_(op), subject_(subject), options_(options), bound_(op.tolerances.at(options.tier)) {}

  // Nothing when the trial has no meaning for this operator.
  std::optional<TrialResult> run(const SuiteTrial& asked) {
    result_ = {
        asked.suite, asked.trial.name, Outcome::kPassed, {}, 0, 0, to_string(asked.trial.dtypes)};
    if (asked.suite == "bitwise") {
      bitwise(asked.trial);
      return result_;
    }
    auto memory = TrialMemory::make(op_, asked.trial, subject_.api(), subject_.device().device);
    if (!memory) {
      if (memory.error().code == Code::kUnavailable) return std::nullopt;
      const bool no_memory = memory.error().code == Code::kOutOfMemory;
      finish(no_memory ? Outcome::kSkipped : Outcome::kFailed, memory.error().message);
      return result_;
    }
    values(*memory);
    return result_;
  }

  // The device is in no state to go on.
  bool broken() const { return broken_; }

 private:
  void finish(Outcome outcome, std::string reason) {
    result_.outcome = outcome;
    result_.reason = std::move(reason);
  }

  void bitwise(const Trial& trial) {
    const auto different = bitwise_difference(subject_, op_, trial);
    if (!different) {
      finish(different.error().code == Code::kUnavailable ? Outcome::kRefused : Outcome::kFailed,
             different.error().message);
    } else if (!different->empty()) {
      finish(Outcome::kFailed, *different);
    }
  }

  void values(TrialMemory& memory) {
    auto planned = subject_.plan(memory.views(), memory.trial().attributes);
    if (!planned) return finish(Outcome::kFailed, planned.error().message);
    if (!planned->plan) return finish(Outcome::kRefused, planned->refused);
    // An output that is NaN by right could be one that was never written: a second run poisons with
    // something else.
    const int runs = special(memory.trial().data) ? 2 : 1;
    for (int which = 0; which < runs && result_.outcome == Outcome::kPassed; ++which) {
      if (auto status = memory.reset(which); !status)
        return finish(Outcome::kFailed, status.error().message);
      if (auto status = subject_.run(*planned->plan, memory.data()); !status) {
        broken_ = status.error().code == Code::kDriver;
        return finish(Outcome::kFailed, status.error().message);
      }
      if (auto status = memory.unchanged(); !status)
        return finish(Outcome::kFailed, status.error().message);
      if (auto status = judge(memory); !status)
        return finish(Outcome::kFailed, status.error().message);
    }
  }

  static bool special(Data data) {
    return data == Data::kOneNaN || data == Data::kOneInfinity || data == Data::kNegInfinity ||
           data == Data::kBothInfinities || data == Data::kAllNaN;
  }

  Status judge(TrialMemory& memory) {
    std::int64_t most = 0;
    for (const TensorView& view : memory.views()) {
      if (view.present()) most = std::max(most, view.element_count());
    }
    std::string symbol;
    std::vector<std::int64_t> rows;
    if (most > kSampledAbove || memory.trial().tiled) {
      symbol = widest_batch_symbol(memory.trial());
      if (!symbol.empty()) {
        const std::int64_t extent = std::get<std::int64_t>(memory.trial().dims.at(symbol));
        rows = sampled_rows(extent, most / std::max<std::int64_t>(extent, 1), memory.trial().seed);
      }
    }
    OPFORGE_ASSIGN(const ReferenceCall reference, memory.reference(symbol, rows));
    for (std::size_t i = 0; i < op_.signature.tensors.size(); ++i) {
      const TensorArg& arg = op_.signature.tensors[i];
      const GuardedTensor& tensor = memory.tensors()[i];
      if (arg.access == Access::kRead || !tensor.present()) continue;
      if (!special(memory.trial().data)) {
        OPFORGE_ASSIGN(const std::int64_t poisoned, tensor.still_poisoned());
        if (poisoned > 0) {
          finish(Outcome::kFailed,
                 fmt::format("{}: {} elements were never written", arg.name, poisoned));
        }
      }
      OPFORGE_ASSIGN(const std::vector<double> actual,
                     tensor.values(memory.rows_of(i, symbol, rows)));
      const auto found = reference.tensors.find(arg.name);
      if (found == reference.tensors.end())
        return fail(Code::kInvalidDeclaration, "the reference lost " + arg.name);
      const TensorErrors errors =
          compare_tensor(arg.name, actual, found->second, tensor.view().dtype, bound_);
      result_.worst_ulps = std::max(result_.worst_ulps, errors.worst_ulps);
      result_.worst_share = std::max(result_.worst_share, errors.worst_share);
      if (errors.wrong > 0 && result_.outcome == Outcome::kPassed)
        finish(Outcome::kFailed, errors.problem);
    }
    return {};
  }

  std::string widest_batch_symbol(const Trial& trial) const {
    std::string best;
    std::int64_t most = 0;
    for (const std::string& symbol : batch_symbols(op_.signature)) {
      const auto found = trial.dims.find(symbol);
      const auto* extent =
          found == trial.dims.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
      if (extent != nullptr && *extent > most && leads(symbol)) most = *extent, best = symbol;
    }
    return best;
  }

  // Rows of the first dim lie together in memory: cheap to read back.
  bool leads(const std::string& symbol) const {
    for (const TensorArg& arg : op_.signature.tensors) {
      if (axis_of(arg, symbol) > 0) return false;
    }
    return true;
  }

  const Operator& op_;
  LoadedSubject& subject_;
  const SuiteOptions& options_;
  const Bound bound_;
  TrialResult result_;
  bool broken_ = false;
};

void count(SuiteReport& report, const TrialResult& result) {
  switch (result.outcome) {
    case Outcome::kPassed:
      ++report.passed;
      break;
    case Outcome::kFailed:
      ++report.failed;
      break;
    case Outcome::kRefused:
      ++report.refused;
      break;
    case Outcome::kSkipped:
      ++report.skipped;
      break;
  }
  report.worst_ulps = std::max(report.worst_ulps, result.worst_ulps);
  if (result.worst_share > report.worst_share || report.worst_trial.empty()) {
    report.worst_share = std::max(report.worst_share, result.worst_share);
    report.worst_trial = result.suite + " " + result.trial;
  }
}

}  // namespace

Result<SuiteReport> run_suites(const Operator& op, const BuiltCode& code, const DeviceInfo& device,
                               const SuiteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (!satisfies(code.artifact.variant.tier, options.tier)) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{} offers {}, which does not promise {}", to_string(code.artifact.variant),
                    tier_name(code.artifact.variant.tier), tier_name(options.tier)),
        "verify");
  }
  OPFORGE_ASSIGN(LoadedSubject subject,
                 LoadedSubject::load(op.signature, code, device, options.allow_ptx));
  const Variant& variant = code.artifact.variant;
  SuiteReport report{op.signature.name, variant.kernel, to_string(variant), variant.backend,
                     variant.target,    device.model,   options.tier};
  SuiteRun suite(op, subject, options);
  const auto keep = [&](TrialResult result) {
    count(report, result);
    if (options.progress) options.progress(result);
    report.results.push_back(std::move(result));
  };
  if (options.tier == Tier::kDeterministic) {
    TrialResult gates{"gates", "static", Outcome::kPassed, {}, 0, 0, to_string(variant.dtypes)};
    if (auto status = deterministic_gates(op, code.artifact, code.code); !status) {
      gates.outcome = Outcome::kFailed;
      gates.reason = status.error().message;
    }
    keep(std::move(gates));
  }
  for (const SuiteTrial& trial : trials_for(op, code.artifact, device, options)) {
    if (options.cancelled && options.cancelled())
      return fail(Code::kCancelled, "verification was interrupted", "verify");
    if (options.stop_at_first_failure && report.failed > 0) break;
    if (auto result = suite.run(trial)) keep(std::move(*result));
    if (suite.broken()) break;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace opforge
