// Child processes in their own process group, with a deadline and a watched memory limit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace opforge {

struct ProcessSpec {
  std::vector<std::string> argv;                          // argv[0] is looked up in PATH unless it has a slash
  std::map<std::string, std::string> environment;         // added to or replacing the parent's
  bool clear_environment = false;
  Path working_dir;                                       // empty: the parent's
  std::string input;                                      // written to standard input, then closed
  double time_limit_s = 0;                                // 0: none
  std::uint64_t memory_limit_bytes = 0;                   // resident memory of the whole group, watched; 0: none
};

enum class ProcessEnd { kExited, kSignalled, kTimedOut, kOutOfMemory, kCancelled };

struct ProcessResult {
  ProcessEnd end = ProcessEnd::kExited;
  int exit_code = 0;    // when kExited
  int signal = 0;       // when kSignalled
  std::string output;   // standard output
  std::string errors;   // standard error
  double wall_s = 0;
  std::string describe() const;  // "exited with 1", "killed by SIGSEGV", "ran past 10 s", ...
};

// Run to the end; the group is killed at the deadline, over the memory limit, or when `cancelled()` turns true.
// An error only when the child could not be started.
Result<ProcessResult> run_process(const ProcessSpec& spec, const std::function<bool()>& cancelled = {});

// A long-lived worker that answers one line of text for each line sent (JSON lines in practice). Own process group.
class Worker {
 public:
  static Result<Worker> start(const ProcessSpec& spec);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();  // kills the group
  struct Answer {
    std::optional<std::string> line;  // absent: the worker ended or was killed; see `result`
    ProcessResult result;             // filled when `line` is absent
  };
  // Send a line and wait for the answer; on time-out or over the memory limit the group is killed and reaped.
  Answer ask(std::string_view line, double time_limit_s, std::uint64_t memory_limit_bytes,
             const std::function<bool()>& cancelled = {});
  int pid() const;
  bool alive() const;

 private:
  struct State;
  explicit Worker(State* state) : state_(state) {}
  State* state_ = nullptr;
};

// Set by SIGINT/SIGTERM once install_interrupt_handler() has been called (the shell does); false otherwise.
void install_interrupt_handler();
bool interrupted();

}  // namespace opforge
