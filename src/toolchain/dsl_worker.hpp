// Compilers that are Python programs, kept warm: a pool of worker processes of one DSL, each asked
// one question at a time. A worker that aborts, hangs, grows or talks nonsense is classified,
// killed with its process group and replaced; the caller gets an error that says what happened.
//
// A worker runs opforge_worker.py (beside this file), which loads the DSL's own worker.py.
// Questions and answers are lines of JSON; answers travel over a descriptor of their own, so that
// what a DSL prints to standard output harms nothing. docs/guides/dsl-backends.md describes both
// sides.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/result.hpp"
#include "toolchain/source.hpp"

namespace opforge {

struct DslWorkerSpec {
  std::string dsl;      // for messages: "triton"
  Path python;          // the interpreter of its environment
  Path script;          // backends/<dsl>/worker.py
  std::string version;  // what the worker must say that it loaded; empty: not compared
  // Beside PATH, LD_LIBRARY_PATH and a private HOME, TMPDIR and cache: nothing else of this
  // process's environment reaches a worker. "{folder}" in a value becomes the private folder.
  std::map<std::string, std::string> environment;
  double start_limit_s = 120;                                 // to load the DSL
  double time_limit_s = 300;                                  // for one answer
  std::uint64_t memory_limit_bytes = std::uint64_t{8} << 30;  // of a worker and its children
  std::size_t most = 0;  // workers; 0: one for each usable core
};

struct DslAnswer {
  nlohmann::json values;                     // what worker.py returned
  std::map<std::string, std::string> blobs;  // and the bytes beside it: "cubin", "ptx"
};

class DslWorkers {
 public:
  explicit DslWorkers(DslWorkerSpec spec);
  ~DslWorkers();
  DslWorkers(const DslWorkers&) = delete;
  DslWorkers& operator=(const DslWorkers&) = delete;

  // Compile `sources` (the first named by `job["source"]`) as `job` says. Thread-safe; waits while
  // all workers are busy. Calls may_compile(what) first, so that no worker is ever started in a
  // sealed process or outside development mode. kToolchain: the DSL refused the kernel (its own
  // message and line), or the worker aborted, hung, grew too large or could not be started.
  Result<DslAnswer> ask(nlohmann::json job, const SourceSet& sources, std::string_view what);

  std::size_t started() const;  // workers started so far, replacements included
  const DslWorkerSpec& spec() const { return spec_; }

 private:
  struct One;
  Result<std::unique_ptr<One>> start(std::string_view what);
  Result<std::unique_ptr<One>> borrow(std::string_view what);
  void give_back(std::unique_ptr<One> worker);

  DslWorkerSpec spec_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::unique_ptr<One>> idle_;
  std::size_t alive_ = 0, started_ = 0;
};

}  // namespace opforge
