// The worker's side.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "artifact/pack.hpp"
#include "runtime/backends.hpp"
#include "runtime/seal.hpp"
#include "tune/local_evaluator.hpp"
#include "tune/record_json.hpp"
#include "tune/worker.hpp"

namespace opforge {
namespace {

// Ends the whole group once the parent is gone: a candidate in an endless loop would otherwise
// outlive everybody. (PR_SET_PDEATHSIG follows the thread that started us, not the process.)
void watch_parent() {
  const pid_t parent = getppid();
  std::thread([parent] {
    while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    kill(0, SIGKILL);
  }).detach();
}

// The descriptor for answers; prints of candidates and libraries then go to standard error.
int take_output() {
  const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return own;
}

bool write_line(int fd, std::string line) {
  line += '\n';
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t n = write(fd, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool read_line(std::string& buffer, std::string& line) {
  while (true) {
    if (const auto end = buffer.find('\n'); end != std::string::npos) {
      line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return true;
    }
    char chunk[65536];
    const ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    buffer.append(chunk, static_cast<std::size_t>(n));
  }
}

Json failure(const Error& error) {
  return {{"ok", false},
          {"code", code_name(error.code)},
          {"outcome", trial_outcome_name(outcome_of(error))},
          {"message", error.message}};
}

Result<BuiltCode> read_code(const Json& files) {
  BuiltCode built;
  OPFORGE_ASSIGN(const std::string manifest, read_file(files.at("manifest").get<std::string>()));
  OPFORGE_ASSIGN(built.artifact, manifest_from_json(manifest));
  OPFORGE_ASSIGN(built.code, read_file(files.at("code").get<std::string>()));
  if (sha256(built.code) != built.artifact.code_digest) {
    return fail(Code::kCorrupt,
                "the code of " + to_string(built.artifact.variant) + " does not match its digest",
                "tune/worker");
  }
  return built;
}

class Service {
 public:
  explicit Service(const Catalogue& catalogue) : catalogue_(catalogue) {}

  Json answer(const std::string& line) {
    const auto request = parse_json(line, "the request");
    if (!request) return failure(request.error());
    try {
      auto result = dispatch(*request);
      return result ? std::move(*result) : failure(result.error());
    } catch (const std::exception& error) {
      return failure(
          {Code::kInternal, std::string("in the worker: ") + error.what(), "tune/worker"});
    }
  }

 private:
  Result<Json> dispatch(const Json& request) {
    const auto what = request.at("do").get<std::string>();
    if (what == "open") return open(request);
    if (!evaluator_)
      return fail(Code::kInvalidArgument, "a worker must be opened first", "tune/worker");
    if (what == "check") return check(request);
    if (what == "measure") return measure(request);
    if (what == "prove") return prove(request);
    return fail(Code::kInvalidArgument, "a worker does not know how to '" + what + "'",
                "tune/worker");
  }

  Result<Json> open(const Json& request) {
    EvaluationSetup setup;
    OPFORGE_ASSIGN(setup.op, catalogue_.get(request.at("op").get<std::string>()));
    setup.shape.name = request.at("shape").get<std::string>();
    setup.shape.dims = values_from(request.at("dims"));
    setup.shape.attributes = values_from(request.at("attributes"));
    setup.shape.dtypes = dtypes_from(request.at("dtypes"));
    setup.cache = request.at("cold").get<bool>() ? CacheMode::kCold : CacheMode::kWarm;
    setup.allow_ptx = request.at("allow_ptx").get<bool>();
    const Device wanted{static_cast<DeviceKind>(request.at("device_kind").get<int>()),
                        request.at("ordinal").get<int>()};
    OPFORGE_ASSIGN(setup.device, find_device(wanted));
    CopyCeiling ceiling;
    ceiling.bytes_per_second = request.at("ceiling").get<double>();
    evaluator_.emplace(std::move(setup), ceiling);
    OPFORGE_TRY(evaluator_->open());
    return Json{{"ok", true}, {"ceiling", evaluator_->ceiling().bytes_per_second}};
  }

  static Result<DeviceInfo> find_device(Device wanted) {
    for (const DeviceInfo& info : all_devices()) {
      if (info.device == wanted) return info;
    }
    return fail(Code::kUnavailable, "the worker cannot see device " + device_name(wanted),
                "tune/worker");
  }

  Result<Json> check(const Json& request) {
    OPFORGE_ASSIGN(const BuiltCode code, read_code(request.at("code")));
    const CheckAnswer answer = evaluator_->check(code, request.at("salt").get<std::uint64_t>());
    return Json{{"ok", true},
                {"outcome", trial_outcome_name(answer.outcome)},
                {"reason", answer.reason},
                {"worst_share",
                 std::isfinite(answer.worst_share) ? Json(answer.worst_share) : Json(nullptr)},
                {"seconds", answer.seconds}};
  }

  Result<Json> measure(const Json& request) {
    std::vector<BuiltCode> codes;
    for (const Json& files : request.at("codes")) {
      OPFORGE_ASSIGN(BuiltCode code, read_code(files));
      codes.push_back(std::move(code));
    }
    MeasureSpec spec;
    spec.rounds = request.at("rounds").get<std::size_t>();
    spec.time_limit_s = request.at("time_limit_s").get<double>();
    const MeasureAnswer answer = evaluator_->measure(codes, spec);
    Json json{{"ok", true},
              {"outcome", trial_outcome_name(answer.outcome)},
              {"reason", answer.reason},
              {"seconds", answer.seconds}};
    if (answer.outcome == TrialOutcome::kMeasured) json["comparison"] = to_json(answer.comparison);
    return json;
  }

  Result<Json> prove(const Json& request) {
    OPFORGE_ASSIGN(const BuiltCode code, read_code(request.at("code")));
    OPFORGE_ASSIGN(const Attestation attestation, evaluator_->prove(code));
    OPFORGE_TRY(write_attestations(request.at("into").get<std::string>(), {&attestation, 1}));
    return Json{{"ok", true}};
  }

  const Catalogue& catalogue_;
  std::optional<LocalEvaluator> evaluator_;
};

}  // namespace

int worker_main(const std::function<Result<Catalogue>()>& load) {
  const int output = take_output();
  watch_parent();
  // Whoever interrupts the parent with Ctrl-C leaves the decision to the parent.
  signal(SIGINT, SIG_IGN);
  const auto catalogue = load();
  std::optional<Service> service;
  if (catalogue) service.emplace(*catalogue);
  std::string buffer, line;
  while (read_line(buffer, line)) {
    const Json answer = service ? service->answer(line) : failure(catalogue.error());
    if (!write_line(output, dump_json(answer))) return 1;
  }
  return 0;
}

}  // namespace opforge
