#include "tune/local_evaluator.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/backends.hpp"
#include "verify/compare.hpp"
#include "verify/proof.hpp"

namespace opforge {
namespace {

using Clock = std::chrono::steady_clock;

// Rows that the check before timing looks at: what goes wrong with a width shows in a few rows, and
// timing checks sampled rows of the whole shape again.
constexpr std::int64_t kCheckedRows = 33;
constexpr std::size_t kCheckedElements = std::size_t{1} << 16;  // of the suites' other trials

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CheckAnswer answer(TrialOutcome outcome, std::string reason) {
  CheckAnswer result;
  result.outcome = outcome;
  result.reason = std::move(reason);
  return result;
}

CheckAnswer answer(const Error& error) { return answer(outcome_of(error), error.message); }

// The tuned shape with its first batch dim cut.
ValueMap checked_dims(const Operator& op, const ValueMap& dims) {
  ValueMap cut = dims;
  const std::string batch = batch_symbol(op.signature);
  if (const auto found = cut.find(batch); found != cut.end()) {
    if (auto* rows = std::get_if<std::int64_t>(&found->second))
      *rows = std::min(*rows, kCheckedRows);
  }
  return cut;
}

CheckAnswer judge_output(const TensorArg& argument, const GuardedTensor& tensor,
                         const ReferenceTensor& reference, const Bound& bound) {
  const auto values = tensor.values();
  if (!values) return answer(values.error());
  const auto errors = compare_tensor(argument.name, *values, reference, tensor.view().dtype, bound);
  CheckAnswer result;
  result.worst_share = errors.worst_share;
  if (errors.wrong == 0) return result;
  result.outcome = TrialOutcome::kWrongResult;
  result.reason = errors.problem;
  // Poison is NaN too: what was never written is not a kernel that computes NaN.
  if (const auto left = tensor.still_poisoned(); left && *left > 0) {
    result.reason = fmt::format("{} elements of {} were never written", *left, argument.name);
    return result;
  }
  for (std::size_t i = 0; i < values->size() && i < reference.values.size(); ++i) {
    if (std::isnan((*values)[i]) && !std::isnan(reference.values[i]))
      result.outcome = TrialOutcome::kNaN;
  }
  return result;
}

// The tuned shape on random inputs, outputs poisoned, memory guarded.
CheckAnswer check_shape_once(const EvaluationSetup& setup, LoadedSubject& subject,
                             const BuiltCode& code, std::uint64_t salt) {
  const Operator& op = *setup.op;
  Trial trial;
  trial.name = "tuned shape";
  trial.dims = checked_dims(op, setup.shape.dims);
  trial.attributes = setup.shape.attributes;
  trial.dtypes = setup.shape.dtypes;
  trial.seed = trial_seed(code.artifact.code_digest, trial.name, salt);
  auto memory = TrialMemory::make(op, trial, subject.api(), setup.device.device);
  if (!memory) return answer(memory.error());
  auto planned = subject.plan(memory->views(), trial.attributes);
  if (!planned) return answer(planned.error());
  if (!planned->refused.empty()) return answer(TrialOutcome::kRefused, planned->refused);
  if (auto status = memory->reset(); !status) return answer(status.error());
  if (auto status = subject.run(*planned->plan, memory->data()); !status)
    return answer(status.error());
  const auto reference = memory->reference();
  if (!reference) return answer(reference.error());
  if (auto status = memory->unchanged(); !status) {
    return answer(TrialOutcome::kWrongResult, status.error().message);
  }
  CheckAnswer worst;
  for (std::size_t i = 0; i < op.signature.tensors.size(); ++i) {
    const TensorArg& argument = op.signature.tensors[i];
    const GuardedTensor& tensor = memory->tensors()[i];
    if (!tensor.view().present()) continue;
    if (argument.access == Access::kRead) continue;
    const CheckAnswer judged = judge_output(argument, tensor, reference->tensors.at(argument.name),
                                            op.tolerances.at(code.artifact.variant.tier));
    if (judged.outcome != TrialOutcome::kMeasured) return judged;
    worst.worst_share = std::max(worst.worst_share, judged.worst_share);
  }
  return worst;
}

bool beats_the_floor(const Comparison& comparison) {
  return std::any_of(
      comparison.readings.begin(), comparison.readings.end(),
      [](const Reading& reading) { return reading.rejected.starts_with("impossible"); });
}

CheckAnswer check_suites(const EvaluationSetup& setup, const BuiltCode& code, std::uint64_t salt) {
  SuiteOptions options;
  options.tier = code.artifact.variant.tier;
  options.salt = salt;
  options.allow_ptx = setup.allow_ptx;
  options.stop_at_first_failure = true;
  options.most_elements = kCheckedElements;
  const auto report = run_suites(*setup.op, code, setup.device, options);
  if (!report) return answer(report.error());
  CheckAnswer result;
  result.worst_share = report->worst_share;
  if (!report->ok()) {
    result.outcome = TrialOutcome::kWrongResult;
    result.reason = report->first_failure();
  }
  return result;
}

}  // namespace

TrialOutcome outcome_of(const Error& error) {
  switch (error.code) {
    case Code::kUnavailable:
    case Code::kIncompatible:
    case Code::kInvalidArgument:
    case Code::kInvalidDeclaration:
      return TrialOutcome::kRefused;
    case Code::kDriver:
      return TrialOutcome::kDeviceError;
    case Code::kOutOfMemory:
      return TrialOutcome::kOutOfMemory;
    case Code::kToolchain:
      return TrialOutcome::kNotCompiled;
    default:
      return TrialOutcome::kOther;
  }
}

LocalEvaluator::LocalEvaluator(EvaluationSetup setup, CopyCeiling ceiling)
    : setup_(std::move(setup)), ceiling_(std::move(ceiling)) {}

Status LocalEvaluator::open() {
  api_ = find_device_api(setup_.device.device.kind);
  if (api_ == nullptr) {
    return fail(Code::kUnavailable,
                "no backend of this build has devices of kind " +
                    std::string(device_kind_name(setup_.device.device.kind)),
                "tune");
  }
  if (const auto support = api_->available(); !support)
    return fail(Code::kUnavailable, support.reason(), "tune");
  if (ceiling_.bytes_per_second <= 0) {
    auto measured = measure_copy_ceiling(*api_, setup_.device);
    // Without a ceiling there is no floor, which only means that impossible readings are not
    // recognised by it.
    if (measured) ceiling_ = std::move(*measured);
  }
  return {};
}

CheckAnswer LocalEvaluator::check(const BuiltCode& code, std::uint64_t salt) {
  const auto start = Clock::now();
  auto subject = LoadedSubject::load(setup_.op->signature, code, setup_.device, setup_.allow_ptx);
  CheckAnswer result;
  if (!subject) {
    result = answer(subject.error());
  } else {
    result = check_shape_once(setup_, *subject, code, salt);
    if (result.outcome == TrialOutcome::kMeasured) {
      const double share = result.worst_share;
      result = check_suites(setup_, code, salt);
      result.worst_share = std::max(result.worst_share, share);
    }
  }
  result.seconds = seconds_since(start);
  return result;
}

MeasureAnswer LocalEvaluator::measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) {
  const auto start = Clock::now();
  MeasureOptions options;
  options.cache = setup_.cache;
  options.rounds = spec.rounds;
  options.time_limit_s = spec.time_limit_s;
  const auto run = [&] {
    return bench_code(*setup_.op, codes, setup_.shape, *api_, setup_.device, ceiling_, options);
  };
  auto comparison = run();
  if (comparison && beats_the_floor(*comparison) && raise_ceiling()) comparison = run();
  MeasureAnswer result;
  if (comparison) {
    result.comparison = std::move(*comparison);
  } else {
    result.outcome = outcome_of(comparison.error());
    result.reason = comparison.error().message;
  }
  result.seconds = seconds_since(start);
  return result;
}

// A ceiling that was measured while something else was running is too low, and makes honest times
// look impossible. The fastest copy ever seen is the ceiling.
bool LocalEvaluator::raise_ceiling() {
  auto measured = measure_copy_ceiling(*api_, setup_.device);
  if (!measured || measured->bytes_per_second <= ceiling_.bytes_per_second) return false;
  ceiling_ = std::move(*measured);
  return true;
}

Result<Attestation> LocalEvaluator::prove(const BuiltCode& code) {
  SuiteOptions options;
  options.allow_ptx = setup_.allow_ptx;
  OPFORGE_ASSIGN(Proof proof, opforge::prove(*setup_.op, code, setup_.device, options));
  return std::move(proof.attestation);
}

}  // namespace opforge
