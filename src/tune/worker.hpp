// Workers: judging candidates in a child process, so that one that crashes, hangs or eats memory
// harms nobody else.
//
// Protocol: one JSON object a line, each way. {"do": "open" | "check" | "measure" | "prove", ...}
// is answered by
// {"ok": true, ...} or {"ok": false, "code": ..., "message": ...}. Code travels in files named by
// the request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "tune/evaluator.hpp"

namespace opforge {

// The body of the hidden subcommand `opforge __worker`: answers requests on standard input until it
// is closed, then returns the exit code. `load` gives the catalogue (kept for the life of the
// process). Standard output is taken for answers alone: whatever else prints there goes to standard
// error.
int worker_main(const std::function<Result<Catalogue>()>& load);

struct WorkerOptions {
  std::vector<std::string> argv;                   // empty: this program with "__worker"
  std::map<std::string, std::string> environment;  // added to the worker's
  double time_limit_s = 30;                        // of one check or measurement
  double start_limit_s = 60;  // of the first answer: loading, the device, the copy ceiling
  std::uint64_t memory_limit_bytes =
      0;  // resident memory of the worker's group; 0: three quarters of the machine's
  std::function<bool()> cancelled;
};

// Judges in a worker that is replaced whenever a candidate ruined it. Cancelled requests end with
// outcome kOther and cancelled() true.
class WorkerEvaluator final : public Evaluator {
 public:
  WorkerEvaluator(EvaluationSetup setup, WorkerOptions options);
  ~WorkerEvaluator() override;
  Status open() override;
  CheckAnswer check(const BuiltCode& code, std::uint64_t salt) override;
  MeasureAnswer measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) override;
  Result<Attestation> prove(const BuiltCode& code) override;
  std::size_t workers_started() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What the end of a worker says about the candidate that it was busy with.
struct WorkerEnd {
  TrialOutcome outcome = TrialOutcome::kNoAnswer;
  std::string reason;
};
WorkerEnd classify_end(const ProcessResult& result);

}  // namespace opforge
