// FileLock, declared in base/files.hpp.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/files.hpp"

namespace opforge {
namespace {

using Clock = std::chrono::steady_clock;

tl::unexpected<Error> lock_error(const Path& path, int error) {
  return fail(Code::kIo, "cannot lock '" + path.string() + "': " + std::strerror(error),
              "base/files");
}

// Somebody may have removed the file (a cleared cache) between open and flock: a lock on an orphan
// excludes nobody.
bool still_names(const Path& path, int fd) {
  struct stat open_file {
  }, named{};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

}  // namespace

Result<FileLock> FileLock::acquire(const Path& path, int wait_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(std::max(wait_ms, 0));
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) return lock_error(path, errno);
    FileLock lock(fd);
    // Polled, not blocking: a blocking flock cannot time out without signals.
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return lock_error(path, errno);
      if (wait_ms >= 0 && Clock::now() >= deadline) {
        return fail(Code::kTimeout,
                    "'" + path.string() + "' is locked by another process; waited " +
                        std::to_string(wait_ms) + " ms",
                    "base/files");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(20));
    }
    if (still_names(path, fd)) return lock;
  }
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace opforge
