// Internal to base: one child as the leader of its own process group, its pipes, and the limits it
// is held to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"

namespace opforge {

class ProcessGroup {
 public:
  static Result<ProcessGroup> start(const ProcessSpec& spec);
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  ~ProcessGroup();  // kills and reaps

  // Wait up to `wait_ms` for something to read or write; move what can be moved. What was written
  // is cut off the front of `to_write`; it becomes empty when the child closed its standard input.
  void exchange(std::string_view& to_write, std::string& output, std::string& errors, int wait_ms);
  void drain(std::string& output, std::string& errors);  // what is there now, without waiting
  void close_input();
  bool output_open() const { return output_ >= 0; }
  bool ended();  // the leader has exited; it stays a zombie, so its id is not reused, until
                 // kill_and_reap
  // Kill whatever is left of the group, reap the leader, fill end, exit_code or signal, and wall_s.
  // Idempotent.
  void kill_and_reap(ProcessResult& result);
  pid_t pid() const { return pid_; }
  std::chrono::steady_clock::time_point started() const { return started_; }

 private:
  ProcessGroup() = default;
  pid_t pid_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  bool reaped_ = false;
  std::chrono::steady_clock::time_point started_{};
};

// Deadline, resident memory of the group, and the caller's wish, polled.
class GroupLimits {
 public:
  GroupLimits(const ProcessGroup& group, double time_limit_s, std::uint64_t memory_limit_bytes,
              const std::function<bool()>& cancelled);
  std::optional<ProcessEnd> exceeded();

 private:
  std::uint64_t resident_bytes();
  pid_t leader_;
  double time_limit_s_;
  std::uint64_t memory_limit_bytes_;
  const std::function<bool()>& cancelled_;
  std::chrono::steady_clock::time_point started_, next_scan_{};
  std::vector<pid_t> members_;  // of the group, as of the last scan of /proc
};

}  // namespace opforge
