#include "toolchain/dsl_toolchain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "operator/expression.hpp"
#include "toolchain/python_source.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "toolchain/dsl";

// "3.9" of "3.9.0" and "3.9".
std::string minor_of(const std::string& version) {
  const std::vector<std::string> parts = split(version, '.');
  return parts.size() < 2 ? version : parts[0] + "." + parts[1];
}

Path worker_loop() { return source_root() / "src" / "toolchain" / "opforge_worker.py"; }

}  // namespace

Path DslToolchain::script() const {
  return source_root() / "backends" / info_.backend / "worker.py";
}

Result<std::shared_ptr<const Venv>> DslToolchain::environment() {
  OPFORGE_ASSIGN(auto venv, find_venv(info_.backend));
  const auto version = venv->packages.find(info_.package);
  if (version == venv->packages.end()) {
    return fail(Code::kToolchain,
                fmt::format("the environment '{}' has no {}: make it anew with `opforge doctor "
                            "--install {}`",
                            venv->root.string(), info_.package, info_.backend),
                kWhere);
  }
  const bool served = std::find(info_.minors.begin(), info_.minors.end(),
                                minor_of(version->second)) != info_.minors.end();
  if (!served) {
    return fail(
        Code::kToolchain,
        fmt::format("{} {} is not served, {} are: what its metadata means was checked for "
                    "these only; `opforge doctor --install {}` makes an environment that is",
                    info_.package, version->second, fmt::join(info_.minors, " and "),
                    info_.backend),
        kWhere);
  }
  for (const Path& file : {script(), worker_loop()}) {
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error)) continue;
    return fail(Code::kToolchain,
                fmt::format("'{}' is missing: the sources are not complete (OPFORGE_SOURCE_DIR)",
                            file.string()),
                kWhere);
  }
  return venv;
}

Support DslToolchain::available() {
  const auto found = environment();
  return found ? Support::yes() : Support::no(found.error().message);
}

Result<ToolchainStamp> DslToolchain::stamp() {
  OPFORGE_ASSIGN(const auto venv, environment());
  return ToolchainStamp{info_.backend, venv->packages.at(info_.package), venv->digest};
}

Result<SourceSet> DslToolchain::sources(const CompileRequest& request) const {
  const std::vector<Path> roots{Path(request.op->folder),
                                source_root() / "backends" / info_.backend / "include"};
  auto set = python_source_set(request.kernel->sources, roots);
  if (set) return set;
  Error error = set.error();
  error.message = fmt::format("kernel '{}': {}", request.kernel->id, error.message);
  return fail(std::move(error));
}

Status DslToolchain::inputs(const CompileRequest&, Fingerprint&) { return {}; }

Status DslToolchain::fingerprint(const CompileRequest& request, Fingerprint& into) {
  OPFORGE_ASSIGN(const SourceSet set, sources(request));
  for (const std::string& name : request.kernel->sources) into.add("source", name);
  into.add("files", static_cast<std::int64_t>(set.files.size()));
  for (const auto& [name, bytes] : set.files) into.add(name, sha256(bytes));
  for (const Path& file : {script(), worker_loop()}) {
    OPFORGE_ASSIGN(const Digest digest, file_digest(file));
    into.add("worker", digest);
  }
  return inputs(request, into);
}

Result<DslAnswer> DslToolchain::ask(const CompileRequest& request, nlohmann::json job) {
  OPFORGE_ASSIGN(const auto venv, environment());
  OPFORGE_ASSIGN(const SourceSet set, sources(request));
  std::shared_ptr<DslWorkers> workers;
  {
    const std::lock_guard lock(mutex_);
    if (workers_ == nullptr || workers_digest_ != venv->digest ||
        workers_->spec().python != venv->python) {
      DslWorkerSpec spec;
      spec.dsl = info_.backend;
      spec.python = venv->python;
      spec.script = script();
      spec.version = venv->packages.at(info_.package);
      spec.environment = info_.environment;
      spec.time_limit_s = info_.time_limit_s;
      spec.memory_limit_bytes = info_.memory_limit_bytes;
      workers_ = std::make_shared<DslWorkers>(std::move(spec));
      workers_digest_ = venv->digest;
    }
    workers = workers_;
  }
  job["source"] = request.kernel->sources.front();
  job["variant"] = variant_json(request);
  return workers->ask(std::move(job), set, dsl_subject(request));
}

}  // namespace opforge
