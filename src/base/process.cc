// run_process and the interrupt flag; the pieces shared with Worker are in process_group.hpp.
#include "base/process.hpp"

#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/process_group.hpp"

namespace opforge {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) { g_interrupted = 1; }

}  // namespace

std::string ProcessResult::describe() const {
  char text[96];
  switch (end) {
    case ProcessEnd::kExited:
      std::snprintf(text, sizeof text, "exited with %d", exit_code);
      break;
    case ProcessEnd::kSignalled: {
      const char* name = sigabbrev_np(signal);
      if (name != nullptr)
        std::snprintf(text, sizeof text, "killed by SIG%s", name);
      else
        std::snprintf(text, sizeof text, "killed by signal %d", signal);
      break;
    }
    case ProcessEnd::kTimedOut:
      std::snprintf(text, sizeof text, "ran past its limit, killed after %.1f s", wall_s);
      break;
    case ProcessEnd::kOutOfMemory:
      std::snprintf(text, sizeof text, "killed over its memory limit");
      break;
    case ProcessEnd::kCancelled:
      std::snprintf(text, sizeof text, "cancelled after %.1f s", wall_s);
      break;
  }
  return text;
}

Result<ProcessResult> run_process(const ProcessSpec& spec, const std::function<bool()>& cancelled) {
  OPFORGE_ASSIGN(ProcessGroup group, ProcessGroup::start(spec));
  ProcessResult result;
  GroupLimits limits(group, spec.time_limit_s, spec.memory_limit_bytes, cancelled);
  std::string_view to_write = spec.input;
  if (to_write.empty()) group.close_input();
  while (true) {
    group.exchange(to_write, result.output, result.errors, 10);
    if (to_write.empty()) group.close_input();
    if (group.ended()) break;
    if (const auto end = limits.exceeded()) {
      group.kill_and_reap(result);
      result.end = *end;
      break;
    }
  }
  group.kill_and_reap(result);
  // What the child wrote before it ended is still in the pipes.
  group.drain(result.output, result.errors);
  return result;
}

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  // A second signal ends the process in the default way, should the first not be noticed.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace opforge
