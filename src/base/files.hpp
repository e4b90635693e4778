// Files as the store needs them: whole reads, atomic publish, advisory locks, private folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace opforge {

using Path = std::filesystem::path;

Result<std::string> read_file(const Path& path);  // kNotFound when absent, else kIo with errno text

// Write to a sibling temporary, fsync, rename over `path`. Readers see the old or the new bytes, never a mixture.
Status write_file_atomic(const Path& path, std::string_view bytes, unsigned mode = 0644);

// Create `path` and missing parents with `mode`; an existing folder is left as it is. kIo names the path and why.
Status make_dirs(const Path& path, unsigned mode = 0700);

// Publish a finished staging folder as `target` by rename. When `target` already exists the staged one is removed and
// the existing one is adopted (returned false); true when ours was published.
Result<bool> publish_dir(const Path& staged, const Path& target);

// A folder that is removed with all it holds when this goes out of scope. Made beside or below `parent`.
class TempDir {
 public:
  static Result<TempDir> create(const Path& parent, std::string_view prefix = "tmp");
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();
  const Path& path() const { return path_; }
  Path release();  // keep the folder: the caller owns it now

 private:
  explicit TempDir(Path path) : path_(std::move(path)) {}
  Path path_;
};

// An exclusive flock on a file (created if absent); released when destroyed or when the owner dies. Only saves work:
// correctness never depends on it. `wait_ms` < 0 waits for ever; a lock not had in time gives kTimeout.
class FileLock {
 public:
  static Result<FileLock> acquire(const Path& path, int wait_ms);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// A read-only mapping of a whole file. The file may be cut or changed under us: copy what is used, then verify it.
class MappedFile {
 public:
  static Result<MappedFile> open(const Path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::uint64_t size_bytes() const { return size_; }
  // Copy [offset, offset + size) by pread, so that a file cut under us is an error and not a SIGBUS. kCorrupt if short.
  Result<std::string> copy(std::uint64_t offset, std::uint64_t size) const;
  Status copy_into(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

struct Folders {
  Path cache;   // artifacts: OPFORGE_CACHE_DIR, else $XDG_CACHE_HOME/opforge, else $HOME/.cache/opforge; empty if none
  Path state;   // tuning records: OPFORGE_STATE_DIR, else $XDG_STATE_HOME/opforge, else $HOME/.local/state/opforge
  Path config;  // keys and trust: OPFORGE_CONFIG_DIR, else $XDG_CONFIG_HOME/opforge, else $HOME/.config/opforge
};
// Read from the environment at each call. A field is empty when neither its variable nor HOME is set.
Folders user_folders();

}  // namespace opforge
