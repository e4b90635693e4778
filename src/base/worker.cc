// Worker, declared in base/process.hpp.
#include <utility>

#include "base/process.hpp"
#include "base/process_group.hpp"

namespace opforge {

struct Worker::State {
  explicit State(ProcessGroup&& started) : group(std::move(started)) {}
  ProcessGroup group;
  std::string output;  // read, not yet handed out as a line
  ProcessResult result;
  bool finished = false;
};

Result<Worker> Worker::start(const ProcessSpec& spec) {
  OPFORGE_ASSIGN(ProcessGroup group, ProcessGroup::start(spec));
  return Worker(new State(std::move(group)));
}

Worker::Worker(Worker&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Worker::~Worker() { delete state_; }

Worker::Answer Worker::ask(std::string_view line, double time_limit_s,
                           std::uint64_t memory_limit_bytes,
                           const std::function<bool()>& cancelled) {
  State& state = *state_;
  if (state.finished) return {std::nullopt, state.result};
  // Only what comes after the question is its answer.
  state.group.drain(state.output, state.result.errors);
  state.output.clear();
  const std::string message = std::string(line) + "\n";
  std::string_view to_write = message;
  GroupLimits limits(state.group, time_limit_s, memory_limit_bytes, cancelled);
  std::optional<ProcessEnd> over;
  while (true) {
    const bool ended =
        state.group.ended();  // before reading: everything written is then already in the pipe
    state.group.exchange(to_write, state.output, state.result.errors, ended ? 0 : 10);
    if (const auto newline = state.output.find('\n'); newline != std::string::npos) {
      Answer answer{state.output.substr(0, newline), {}};
      state.output.erase(0, newline + 1);
      return answer;
    }
    if (ended) break;
    over = limits.exceeded();
    if (over) break;
  }
  state.group.kill_and_reap(state.result);
  if (over) state.result.end = *over;
  state.result.output = std::exchange(state.output, {});
  state.finished = true;
  return {std::nullopt, state.result};
}

int Worker::pid() const { return state_->group.pid(); }

bool Worker::alive() const { return !state_->finished && !state_->group.ended(); }

}  // namespace opforge
