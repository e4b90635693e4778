// The parent's side.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <set>

#include "artifact/pack.hpp"
#include "base/text.hpp"
#include "target/target.hpp"
#include "tune/record_json.hpp"
#include "tune/worker.hpp"

namespace opforge {
namespace {

constexpr std::size_t kShownErrors = 300;  // of a dead worker's standard error, from its end

std::vector<std::string> default_argv() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return {error ? std::string("opforge") : self.string(), "__worker"};
}

std::uint64_t default_memory_limit() {
  return static_cast<std::uint64_t>(detect_cpu().memory_bytes) / 4 * 3;
}

std::string last_words(const std::string& errors) {
  std::string_view text = trim(errors);
  if (text.size() > kShownErrors) text.remove_prefix(text.size() - kShownErrors);
  return text.empty() ? std::string() : "; it said: " + std::string(text);
}

}  // namespace

WorkerEnd classify_end(const ProcessResult& result) {
  using enum TrialOutcome;
  const std::string what = "the worker " + result.describe() + last_words(result.errors);
  switch (result.end) {
    case ProcessEnd::kTimedOut:
      return {kHang, what};
    case ProcessEnd::kOutOfMemory:
      return {kOutOfMemory, what};
    case ProcessEnd::kCancelled:
      return {kOther, what};
    case ProcessEnd::kSignalled:
      if (result.signal == SIGABRT) return {kAbort, what};
      // Nobody but the system's own out-of-memory killer sends this one.
      if (result.signal == SIGKILL)
        return {kOutOfMemory, what + " (the system does that when memory runs out)"};
      return {kCrash, what};
    case ProcessEnd::kExited:
      break;
  }
  return {kNoAnswer, what + " without an answer"};
}

struct WorkerEvaluator::State {
  EvaluationSetup setup;
  WorkerOptions options;
  std::optional<TempDir> folder;
  std::set<std::string> written;  // code keys whose files are in the folder
  std::optional<Worker> worker;
  double ceiling = 0;
  std::size_t started = 0;

  // An answer, or why there is none. A worker that is gone or whose device context is lost is
  // dropped; the next request starts another.
  struct Reply {
    Json json;
    WorkerEnd end;
    bool ok = false;
  };

  Reply ask(const Json& request, double limit_s) {
    if (auto status = ensure_worker(); !status)
      return {{}, {TrialOutcome::kOther, status.error().message}, false};
    return send(request, limit_s);
  }

  Reply send(const Json& request, double limit_s) {
    const auto answer =
        worker->ask(dump_json(request), limit_s, options.memory_limit_bytes, options.cancelled);
    if (!answer.line) {
      worker.reset();
      return {{}, classify_end(answer.result), false};
    }
    auto json = parse_json(*answer.line, "the worker's answer");
    if (!json || !json->contains("ok")) {
      worker.reset();
      return {{},
              {TrialOutcome::kNoAnswer,
               "the worker's answer is not one: '" + answer.line->substr(0, 80) + "'"},
              false};
    }
    if (json->value("ok", false)) {
      if (json->value("outcome", "") == trial_outcome_name(TrialOutcome::kDeviceError))
        worker.reset();
      return {std::move(*json), {}, true};
    }
    const auto outcome = parse_trial_outcome(json->value("outcome", "other"));
    worker.reset();  // its state after an error of its own is not worth trusting
    return {std::move(*json),
            {outcome ? *outcome : TrialOutcome::kOther, json->value("message", "no message")},
            false};
  }

  Status ensure_worker() {
    if (worker && worker->alive()) return {};
    ProcessSpec spec;
    spec.argv = options.argv;
    spec.environment = options.environment;
    OPFORGE_ASSIGN(Worker fresh, Worker::start(spec));
    worker.emplace(std::move(fresh));
    ++started;
    const Reply reply = send({{"do", "open"},
                              {"op", setup.op->signature.name},
                              {"shape", setup.shape.name},
                              {"dims", to_json(setup.shape.dims)},
                              {"attributes", to_json(setup.shape.attributes)},
                              {"dtypes", to_json(setup.shape.dtypes)},
                              {"cold", setup.cache == CacheMode::kCold},
                              {"allow_ptx", setup.allow_ptx},
                              {"device_kind", static_cast<int>(setup.device.device.kind)},
                              {"ordinal", setup.device.device.ordinal},
                              {"ceiling", ceiling}},
                             options.start_limit_s);
    if (!reply.ok) {
      worker.reset();
      return fail(Code::kUnavailable, "a tuning worker could not start: " + reply.end.reason,
                  "tune/worker");
    }
    ceiling = reply.json.value("ceiling", 0.0);
    return {};
  }

  Result<Json> files_of(const BuiltCode& code) {
    const std::string name = code.artifact.code_key.hex();
    const Path manifest = folder->path() / (name + ".json"),
               bytes = folder->path() / (name + ".code");
    if (!written.contains(name)) {
      OPFORGE_ASSIGN(const std::string text, manifest_to_json(code.artifact));
      OPFORGE_TRY(write_file_atomic(manifest, text, 0600));
      OPFORGE_TRY(write_file_atomic(bytes, code.code, 0600));
      written.insert(name);
    }
    return Json{{"manifest", manifest.string()}, {"code", bytes.string()}};
  }
};

WorkerEvaluator::WorkerEvaluator(EvaluationSetup setup, WorkerOptions options)
    : state_(std::make_unique<State>()) {
  state_->setup = std::move(setup);
  state_->options = std::move(options);
  if (state_->options.argv.empty()) state_->options.argv = default_argv();
  if (state_->options.memory_limit_bytes == 0)
    state_->options.memory_limit_bytes = default_memory_limit();
}

WorkerEvaluator::~WorkerEvaluator() = default;

std::size_t WorkerEvaluator::workers_started() const { return state_->started; }

Status WorkerEvaluator::open() {
  std::error_code error;
  const Path temporary = std::filesystem::temp_directory_path(error);
  OPFORGE_ASSIGN(TempDir folder, TempDir::create(error ? Path("/tmp") : temporary, "opforge-tune"));
  state_->folder.emplace(std::move(folder));
  return state_->ensure_worker();
}

CheckAnswer WorkerEvaluator::check(const BuiltCode& code, std::uint64_t salt) {
  const auto files = state_->files_of(code);
  if (!files) return {TrialOutcome::kOther, files.error().message, 0, 0};
  const auto reply = state_->ask({{"do", "check"}, {"code", *files}, {"salt", salt}},
                                 state_->options.time_limit_s);
  if (!reply.ok) return {reply.end.outcome, reply.end.reason, 0, 0};
  auto answer = guarded_read<CheckAnswer>("the worker's answer", [&] {
    CheckAnswer read;
    read.outcome = parse_trial_outcome(reply.json.at("outcome").get<std::string>())
                       .value_or(TrialOutcome::kNoAnswer);
    read.reason = reply.json.at("reason").get<std::string>();
    read.worst_share = reply.json.at("worst_share").is_null()
                           ? INFINITY
                           : reply.json.at("worst_share").get<double>();
    read.seconds = reply.json.at("seconds").get<double>();
    return read;
  });
  return answer ? *answer : CheckAnswer{TrialOutcome::kNoAnswer, answer.error().message, 0, 0};
}

MeasureAnswer WorkerEvaluator::measure(std::span<const BuiltCode> codes, const MeasureSpec& spec) {
  Json files = Json::array();
  for (const BuiltCode& code : codes) {
    auto one = state_->files_of(code);
    if (!one) return {TrialOutcome::kOther, one.error().message, {}, 0};
    files.push_back(std::move(*one));
  }
  const Json request{{"do", "measure"},
                     {"codes", files},
                     {"rounds", spec.rounds},
                     {"time_limit_s", spec.time_limit_s}};
  const double limit_s =
      state_->options.time_limit_s * static_cast<double>(codes.size()) + spec.time_limit_s;
  const auto reply = state_->ask(request, limit_s);
  if (!reply.ok) return {reply.end.outcome, reply.end.reason, {}, 0};
  auto answer = guarded_read<MeasureAnswer>("the worker's answer", [&] {
    MeasureAnswer read;
    read.outcome = parse_trial_outcome(reply.json.at("outcome").get<std::string>())
                       .value_or(TrialOutcome::kNoAnswer);
    read.reason = reply.json.at("reason").get<std::string>();
    read.seconds = reply.json.at("seconds").get<double>();
    if (read.outcome == TrialOutcome::kMeasured)
      read.comparison = comparison_from(reply.json.at("comparison"));
    return read;
  });
  if (!answer) return {TrialOutcome::kNoAnswer, answer.error().message, {}, 0};
  if (answer->outcome == TrialOutcome::kMeasured &&
      answer->comparison.readings.size() != codes.size()) {
    return {TrialOutcome::kNoAnswer,
            fmt::format("the worker timed {} of {} codes", answer->comparison.readings.size(),
                        codes.size()),
            {},
            0};
  }
  return std::move(*answer);
}

Result<Attestation> WorkerEvaluator::prove(const BuiltCode& code) {
  OPFORGE_ASSIGN(const Json files, state_->files_of(code));
  const Path into = state_->folder->path() / "attestation.json";
  const auto reply = state_->ask({{"do", "prove"}, {"code", files}, {"into", into.string()}},
                                 4 * state_->options.time_limit_s);
  if (!reply.ok) return fail(Code::kUnavailable, reply.end.reason, "tune/worker");
  OPFORGE_ASSIGN(std::vector<Attestation> attestations, read_attestations(into));
  if (attestations.size() != 1)
    return fail(Code::kInternal, "the worker wrote no attestation", "tune/worker");
  return std::move(attestations.front());
}

}  // namespace opforge
