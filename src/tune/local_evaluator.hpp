// Judging candidates in this very process: what a worker does. A candidate that misbehaves takes
// the process with it.
#pragma once

#include <memory>

#include "tune/evaluator.hpp"

namespace opforge {

// `op` of the setup must outlive the result. A ceiling of 0 is measured when opened.
class LocalEvaluator final : public Evaluator {
 public:
  LocalEvaluator(EvaluationSetup setup, CopyCeiling ceiling);
  Status open() override;
  CheckAnswer check(const BuiltCode& code, std::uint64_t salt) override;
  MeasureAnswer measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) override;
  Result<Attestation> prove(const BuiltCode& code) override;
  const CopyCeiling& ceiling() const { return ceiling_; }

 private:
  bool raise_ceiling();
  EvaluationSetup setup_;
  CopyCeiling ceiling_;
  DeviceApi* api_ = nullptr;
};

// Which outcome an error of loading, planning or running a candidate stands for.
TrialOutcome outcome_of(const Error& error);

}  // namespace opforge
