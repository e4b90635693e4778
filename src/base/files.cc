#include "base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace opforge {
namespace {

tl::unexpected<Error> io_error(std::string_view action, const Path& path, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return fail(code, std::string(action) + " '" + path.string() + "': " + std::strerror(error),
              "base/files");
}

// As above, for actions where an absent parent is not "the thing does not exist".
tl::unexpected<Error> write_error(std::string_view action, const Path& path, int error) {
  return fail(Code::kIo, std::string(action) + " '" + path.string() + "': " + std::strerror(error),
              "base/files");
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

int open_retry(const char* path, int flags, unsigned mode = 0) {
  int fd;
  do fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

// A rename is durable once its folder is. File systems that cannot sync a folder are left alone.
void sync_dir(const Path& path) {
  const Descriptor dir{open_retry(path.c_str(), O_RDONLY | O_DIRECTORY)};
  if (dir.fd >= 0) fsync(dir.fd);
}

Path parent_of(const Path& path) {
  const Path parent = path.parent_path();
  return parent.empty() ? Path(".") : parent;
}

void remove_quietly(const Path& path) noexcept {
  try {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  } catch (...) {  // out of memory while listing: what is left is only litter
  }
}

Path environment_folder(const char* own, const char* xdg, const char* below_home) {
  if (const char* value = std::getenv(own); value != nullptr && *value != 0) return value;
  // The XDG specification says that relative values are to be ignored.
  if (const char* value = std::getenv(xdg); value != nullptr && *value == '/')
    return Path(value) / "opforge";
  if (const char* value = std::getenv("HOME"); value != nullptr && *value == '/')
    return Path(value) / below_home / "opforge";
  return {};
}

}  // namespace

Result<std::string> read_file(const Path& path) {
  const Descriptor file{open_retry(path.c_str(), O_RDONLY)};
  if (file.fd < 0) return io_error("cannot read", path, errno);
  struct stat info {};
  std::string bytes;
  if (fstat(file.fd, &info) == 0 && S_ISREG(info.st_mode))
    bytes.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[65536];
  while (true) {
    const ssize_t n = read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot read", path, errno);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
}

Status write_file_atomic(const Path& path, std::string_view bytes, unsigned mode) {
  std::string staged = (parent_of(path) / ("." + path.filename().string() + ".XXXXXX")).string();
  Descriptor file{mkostemp(staged.data(), O_CLOEXEC)};
  if (file.fd < 0) return write_error("cannot create a file beside", path, errno);
  int error = write_all(file.fd, bytes);
  if (error == 0 && fchmod(file.fd, mode) != 0) error = errno;
  if (error == 0 && fsync(file.fd) != 0 && errno != EINVAL) error = errno;
  if (close(std::exchange(file.fd, -1)) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(staged.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(staged.c_str());
    return write_error("cannot write", path, error);
  }
  sync_dir(parent_of(path));
  return {};
}

Status make_dirs(const Path& path, unsigned mode) {
  if (path.empty())
    return fail(Code::kInvalidArgument, "an empty path is not a folder", "base/files");
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return {};
    return write_error("cannot create folder", path, ENOTDIR);
  }
  const Path parent = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  if (!parent.empty() && parent != path) OPFORGE_TRY(make_dirs(parent, mode));
  if (mkdir(path.c_str(), mode) == 0) return {};
  const int error = errno;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return {};  // lost a race
  return write_error("cannot create folder", path, error);
}

Result<bool> publish_dir(const Path& staged, const Path& target) {
  sync_dir(staged);
  if (std::rename(staged.c_str(), target.c_str()) == 0) {
    sync_dir(parent_of(target));
    return true;
  }
  const int error = errno;
  struct stat info {};
  if ((error == EEXIST || error == ENOTEMPTY) && stat(target.c_str(), &info) == 0 &&
      S_ISDIR(info.st_mode)) {
    remove_quietly(staged);
    return false;
  }
  return write_error("cannot publish folder", target, error);
}

Result<TempDir> TempDir::create(const Path& parent, std::string_view prefix) {
  OPFORGE_TRY(make_dirs(parent));
  std::string name = (parent / (std::string(prefix) + "-XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr)
    return write_error("cannot create a temporary folder in", parent, errno);
  return TempDir(Path(name));
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempDir::~TempDir() {
  if (!path_.empty()) remove_quietly(path_);
}

Path TempDir::release() { return std::exchange(path_, {}); }

Result<MappedFile> MappedFile::open(const Path& path) {
  MappedFile file;
  file.fd_ = open_retry(path.c_str(), O_RDONLY);
  if (file.fd_ < 0) return io_error("cannot open", path, errno);
  struct stat info {};
  if (fstat(file.fd_, &info) != 0) return io_error("cannot open", path, errno);
  if (!S_ISREG(info.st_mode))
    return fail(Code::kIo, "'" + path.string() + "' is not a regular file", "base/files");
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (fd_ >= 0) close(fd_);
}

Status MappedFile::copy_into(std::uint64_t offset, std::span<std::byte> out) const {
  // Against the size seen at opening, so that a corrupt length never reaches pread or an
  // allocation.
  if (offset > size_ || out.size() > size_ - offset) {
    return fail(Code::kCorrupt,
                "wanted " + std::to_string(out.size()) + " bytes at offset " +
                    std::to_string(offset) + " of a file of " + std::to_string(size_) +
                    " bytes: it is cut short or damaged",
                "base/files");
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(Code::kIo, std::string("cannot read an open file: ") + std::strerror(errno),
                  "base/files");
    if (n == 0) {
      return fail(
          Code::kCorrupt,
          "the file was cut at byte " + std::to_string(offset + done) + " while it was open",
          "base/files");
    }
    done += static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::string> MappedFile::copy(std::uint64_t offset, std::uint64_t size) const {
  std::string bytes;
  if (offset <= size_ && size <= size_ - offset)
    bytes.resize(size);
  else
    return fail(Code::kCorrupt,
                "wanted " + std::to_string(size) + " bytes at offset " + std::to_string(offset) +
                    " of a file of " + std::to_string(size_) + " bytes: it is cut short or damaged",
                "base/files");
  OPFORGE_TRY(copy_into(offset, std::as_writable_bytes(std::span(bytes.data(), bytes.size()))));
  return bytes;
}

Folders user_folders() {
  return {environment_folder("OPFORGE_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
          environment_folder("OPFORGE_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
          environment_folder("OPFORGE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")};
}

}  // namespace opforge
