#include "base/process_group.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

extern char** environ;

namespace opforge {
namespace {

using Clock = std::chrono::steady_clock;

// Output beyond this is dropped, so that a child that prints for ever does not fill our memory.
constexpr std::size_t kMaxCaptured = std::size_t{64} << 20;

struct Pipe {
  int read_end = -1, write_end = -1;
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }
};

// Above the standard descriptors, so that dup2 in the child never overwrites an end that is still
// needed.
int lift(int fd) {
  if (fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return moved;
}

bool make_pipe(Pipe& made) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  made.read_end = lift(fds[0]);
  made.write_end = lift(fds[1]);
  return made.read_end >= 0 && made.write_end >= 0;
}

std::vector<std::string> child_environment(const ProcessSpec& spec) {
  std::vector<std::string> entries;
  for (char** entry = environ; !spec.clear_environment && entry != nullptr && *entry != nullptr;
       ++entry) {
    const std::string_view text = *entry;
    if (!spec.environment.contains(std::string(text.substr(0, text.find('=')))))
      entries.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (auto& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Owns the attributes of a spawn: own group, default signals, empty mask, the three pipes.
class SpawnPlan {
 public:
  SpawnPlan(const Pipe& in, const Pipe& out, const Pipe& err, const Path& working_dir) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, in.read_end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, out.write_end, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err.write_end, STDERR_FILENO);
    if (!working_dir.empty()) posix_spawn_file_actions_addchdir_np(&actions_, working_dir.c_str());
    posix_spawnattr_init(&attributes_);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  int spawn(pid_t* pid, std::vector<std::string> argv, std::vector<std::string> environment) {
    auto argv_list = pointers(argv), environment_list = pointers(environment);
    return posix_spawnp(pid, argv[0].c_str(), &actions_, &attributes_, argv_list.data(),
                        environment_list.data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// write() without SIGPIPE reaching the process: blocked for this thread, and taken back if we
// raised it.
ssize_t write_without_sigpipe(int fd, std::string_view bytes) {
  sigset_t pipe_set, before, pending;
  sigemptyset(&pipe_set);
  sigaddset(&pipe_set, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
  const ssize_t n = write(fd, bytes.data(), bytes.size());
  const int error = errno;
  if (n < 0 && error == EPIPE && !was_pending) {
    const timespec now{};
    while (sigtimedwait(&pipe_set, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return n;
}

// Read what is there; closes and clears `fd` at the end of the stream. Bounded, so that a child
// that writes faster than we read cannot keep us from looking at its limits; more than a pipe
// holds.
void read_available(int& fd, std::string& into) {
  char buffer[65536];
  for (int round = 0; fd >= 0 && round < 64; ++round) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      const auto room = kMaxCaptured - std::min(kMaxCaptured, into.size());
      into.append(buffer, std::min(static_cast<std::size_t>(n), room));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    close(std::exchange(fd, -1));
  }
}

}  // namespace

Result<ProcessGroup> ProcessGroup::start(const ProcessSpec& spec) {
  if (spec.argv.empty())
    return fail(Code::kInvalidArgument, "no program to start: argv is empty", "base/process");
  Pipe in, out, err;
  if (!make_pipe(in) || !make_pipe(out) || !make_pipe(err)) {
    return fail(
        Code::kIo,
        std::string("cannot create pipes for '") + spec.argv[0] + "': " + std::strerror(errno),
        "base/process");
  }
  ProcessGroup group;
  group.started_ = Clock::now();
  const int error = SpawnPlan(in, out, err, spec.working_dir)
                        .spawn(&group.pid_, spec.argv, child_environment(spec));
  if (error != 0) {
    group.pid_ = -1;
    return fail(error == ENOENT ? Code::kNotFound : Code::kIo,
                "cannot start '" + spec.argv[0] + "': " + std::strerror(error), "base/process");
  }
  group.input_ = std::exchange(in.write_end, -1);
  group.output_ = std::exchange(out.read_end, -1);
  group.errors_ = std::exchange(err.read_end, -1);
  for (const int fd : {group.input_, group.output_, group.errors_}) fcntl(fd, F_SETFL, O_NONBLOCK);
  return group;
}

ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      reaped_(std::exchange(other.reaped_, true)),
      started_(other.started_) {}

ProcessGroup::~ProcessGroup() {
  ProcessResult ignored;
  kill_and_reap(ignored);
  for (int* fd : {&input_, &output_, &errors_}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

void ProcessGroup::exchange(std::string_view& to_write, std::string& output, std::string& errors,
                            int wait_ms) {
  pollfd fds[3];
  nfds_t count = 0;
  if (output_ >= 0) fds[count++] = {output_, POLLIN, 0};
  if (errors_ >= 0) fds[count++] = {errors_, POLLIN, 0};
  if (input_ >= 0 && !to_write.empty()) fds[count++] = {input_, POLLOUT, 0};
  // With every pipe closed only the exit is left to wait for, which is near.
  poll(fds, count, count > 0 ? wait_ms : std::min(wait_ms, 1));
  read_available(output_, output);
  read_available(errors_, errors);
  if (to_write.empty()) return;
  if (input_ < 0) {
    to_write = {};
    return;
  }
  const ssize_t n = write_without_sigpipe(input_, to_write);
  if (n >= 0)
    to_write.remove_prefix(static_cast<std::size_t>(n));
  else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
    to_write = {};
}

void ProcessGroup::drain(std::string& output, std::string& errors) {
  read_available(output_, output);
  read_available(errors_, errors);
}

void ProcessGroup::close_input() {
  if (input_ >= 0) close(std::exchange(input_, -1));
}

bool ProcessGroup::ended() {
  if (reaped_ || pid_ <= 0) return true;
  siginfo_t info{};
  int status;
  do status = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  while (status != 0 && errno == EINTR);
  return status != 0 || info.si_pid == pid_;
}

void ProcessGroup::kill_and_reap(ProcessResult& result) {
  if (reaped_ || pid_ <= 0) return;
  // Before reaping: the group's id cannot belong to anybody else while its leader is not reaped.
  kill(-pid_, SIGKILL);
  int status = 0;
  pid_t reaped;
  do reaped = waitpid(pid_, &status, 0);
  while (reaped < 0 && errno == EINTR);
  reaped_ = true;
  result.wall_s = std::chrono::duration<double>(Clock::now() - started_).count();
  if (reaped != pid_) return;
  if (WIFSIGNALED(status)) {
    result.end = ProcessEnd::kSignalled;
    result.signal = WTERMSIG(status);
  } else {
    result.end = ProcessEnd::kExited;
    result.exit_code = WEXITSTATUS(status);
  }
}

GroupLimits::GroupLimits(const ProcessGroup& group, double time_limit_s,
                         std::uint64_t memory_limit_bytes, const std::function<bool()>& cancelled)
    : leader_(group.pid()),
      time_limit_s_(time_limit_s),
      memory_limit_bytes_(memory_limit_bytes),
      cancelled_(cancelled),
      started_(Clock::now()) {}

std::optional<ProcessEnd> GroupLimits::exceeded() {
  if (cancelled_ && cancelled_()) return ProcessEnd::kCancelled;
  if (time_limit_s_ > 0 &&
      std::chrono::duration<double>(Clock::now() - started_).count() > time_limit_s_) {
    return ProcessEnd::kTimedOut;
  }
  if (memory_limit_bytes_ > 0 && resident_bytes() > memory_limit_bytes_)
    return ProcessEnd::kOutOfMemory;
  return std::nullopt;
}

// The whole of /proc is read only every 100 ms to find the members; their sizes are read each time.
std::uint64_t GroupLimits::resident_bytes() {
  if (const auto now = Clock::now(); now >= next_scan_) {
    next_scan_ = now + std::chrono::milliseconds(100);
    members_.assign(1, leader_);
    std::error_code error;
    for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
         it.increment(error)) {
      const pid_t pid = std::atoi(it->path().filename().c_str());
      if (pid > 0 && pid != leader_ && getpgid(pid) == leader_) members_.push_back(pid);
    }
  }
  static const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t total = 0;
  for (const pid_t pid : members_) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/statm", static_cast<int>(pid));
    if (FILE* file = std::fopen(path, "re")) {
      unsigned long long size = 0, resident = 0;
      if (std::fscanf(file, "%llu %llu", &size, &resident) == 2) total += resident * page_bytes;
      std::fclose(file);
    }
  }
  return total;
}

}  // namespace opforge
