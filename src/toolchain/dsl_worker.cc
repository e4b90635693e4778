#include "toolchain/dsl_worker.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "runtime/seal.hpp"
#include "target/target.hpp"
#include "toolchain/host_compiler.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/dsl_worker";
constexpr int kMostRepeats = 50;            // lines that are no answer, before a worker is given up
constexpr std::size_t kMostAnswers = 2000;  // then a worker is replaced: compilers leak

std::string decode_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  std::size_t size = 0;
  const int failed =
      sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL);
  out.resize(failed == 0 ? size : 0);
  return out;
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(Code::kToolchain, std::move(message), kWhere);
}

// What a worker that ended has to say.
std::string last_words(const ProcessResult& result) {
  const std::string lines = last_lines(result.errors + result.output);
  return result.describe() + (lines.empty() ? "" : "\n" + lines);
}

}  // namespace

struct DslWorkers::One {
  TempDir folder;  // outlives the process
  Worker process;
  std::size_t answers = 0;
  std::int64_t next_id = 1;

  // The answer to a question. Lines that are no answer (something wrote to the descriptor of
  // answers) are passed over, by asking for the answer again.
  Result<nlohmann::json> ask(nlohmann::json question, double time_limit_s,
                             std::uint64_t memory_limit_bytes) {
    const std::int64_t id = next_id++;
    question["id"] = id;
    std::string line = question.dump();
    std::string noise;
    for (int i = 0; i < kMostRepeats; ++i) {
      Worker::Answer answer = process.ask(line, time_limit_s, memory_limit_bytes, interrupted);
      if (!answer.line) {
        if (answer.result.end == ProcessEnd::kCancelled)
          return fail(Code::kCancelled, "interrupted", kWhere);
        return refuse("the worker " + last_words(answer.result));
      }
      nlohmann::json parsed = nlohmann::json::parse(*answer.line, nullptr, false);
      if (parsed.is_object() && parsed.value("id", std::int64_t{0}) == id) return parsed;
      noise = answer.line->substr(0, 200);
      line = nlohmann::json{{"repeat", id}}.dump();
    }
    return refuse(fmt::format("the worker's answer is buried under other output: '{}'", noise));
  }
};

DslWorkers::DslWorkers(DslWorkerSpec spec) : spec_(std::move(spec)) {
  if (spec_.most == 0)
    spec_.most = static_cast<std::size_t>(std::max<std::int64_t>(1, detect_cpu().sm_count));
}

DslWorkers::~DslWorkers() = default;

std::size_t DslWorkers::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

Result<std::unique_ptr<DslWorkers::One>> DslWorkers::start(std::string_view what) {
  OPFORGE_TRY(may_compile(what));
  std::error_code error;
  const Path parent = std::filesystem::temp_directory_path(error);
  auto folder = TempDir::create(error ? Path("/tmp") : parent, "opforge-" + spec_.dsl);
  if (!folder) {
    return refuse(fmt::format("{} needs a folder for its worker: {}; set TMPDIR to a writable one",
                              spec_.dsl, folder.error().message));
  }
  ProcessSpec process;
  process.argv = {spec_.python.string(), "-I", "-B",
                  (source_root() / "src" / "toolchain" / "opforge_worker.py").string(),
                  spec_.script.string()};
  process.clear_environment = true;
  const std::string own = folder->path().string();
  process.environment = {{"HOME", own},
                         {"TMPDIR", own},
                         {"LC_ALL", "C.UTF-8"},
                         {"PYTHONHASHSEED", "0"},
                         {"SOURCE_DATE_EPOCH", "0"},
                         {"OPFORGE_WORKER_FOLDER", own}};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name)) process.environment[name] = value;
  }
  for (auto [name, value] : spec_.environment) {
    if (const std::size_t at = value.find("{folder}"); at != std::string::npos)
      value.replace(at, 8, own);
    process.environment[name] = value;
  }
  process.working_dir = folder->path();
  auto started = Worker::start(process);
  if (!started) {
    return refuse(
        fmt::format("cannot start the {} worker: {}", spec_.dsl, started.error().message));
  }
  auto one = std::make_unique<One>(One{std::move(*folder), std::move(*started)});
  auto hello = one->ask({{"hello", true}}, spec_.start_limit_s, spec_.memory_limit_bytes);
  if (!hello) {
    return refuse(
        fmt::format("the {} worker does not start: {}", spec_.dsl, hello.error().message));
  }
  if (!hello->value("ok", false)) {
    return refuse(fmt::format("{} cannot be loaded: {}", spec_.dsl, hello->value("message", "")));
  }
  const std::string version = hello->value("version", "");
  if (!spec_.version.empty() && version != spec_.version) {
    return refuse(
        fmt::format("the environment says {} {}, the worker loaded {}: make it anew with "
                    "`opforge doctor --install {}`",
                    spec_.dsl, spec_.version, version, spec_.dsl));
  }
  return one;
}

Result<std::unique_ptr<DslWorkers::One>> DslWorkers::borrow(std::string_view what) {
  {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !idle_.empty() || alive_ < spec_.most; });
    if (!idle_.empty()) {
      std::unique_ptr<One> worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
    ++alive_;
    ++started_;
  }
  auto made = start(what);
  if (!made) give_back(nullptr);
  return made;
}

// Null: that worker is gone.
void DslWorkers::give_back(std::unique_ptr<One> worker) {
  if (worker && (worker->answers >= kMostAnswers || !worker->process.alive())) worker.reset();
  {
    const std::lock_guard lock(mutex_);
    if (worker)
      idle_.push_back(std::move(worker));
    else
      --alive_;
  }
  free_.notify_one();
}

Result<DslAnswer> DslWorkers::ask(nlohmann::json job, const SourceSet& sources,
                                  std::string_view what) {
  OPFORGE_TRY(may_compile(what));
  nlohmann::json question = {{"job", std::move(job)}};
  question["files"] = nlohmann::json::object();
  Fingerprint digest;
  for (const auto& [name, bytes] : sources.files) {
    question["files"][name] = bytes;
    digest.add(name, bytes);
  }
  question["digest"] = digest.finish().hex();
  OPFORGE_ASSIGN(auto worker, borrow(what));
  auto answer = worker->ask(std::move(question), spec_.time_limit_s, spec_.memory_limit_bytes);
  ++worker->answers;
  give_back(answer ? std::move(worker) : nullptr);
  if (!answer) {
    Error error = answer.error();
    if (error.code != Code::kCancelled)
      error.message = fmt::format("{}: {}: {}", what, spec_.dsl, error.message);
    return fail(std::move(error));
  }
  if (!answer->value("ok", false)) {
    return refuse(
        fmt::format("{}: {}", what, answer->value("message", "the worker gave no reason")));
  }
  DslAnswer out;
  out.values = answer->value("values", nlohmann::json::object());
  const auto blobs = answer->find("blobs");
  if (blobs == answer->end()) return out;
  for (auto blob = blobs->begin(); blob != blobs->end(); ++blob)
    out.blobs[blob.key()] = decode_base64(blob->get<std::string>());
  return out;
}

}  // namespace opforge
