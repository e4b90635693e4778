#include "backends/cpu/loader.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files.hpp"
#include "base/log.hpp"

namespace opforge {
namespace {

Status check_elf(const std::string& name, const std::string& bytes) {
  Elf64_Ehdr header;
  const auto bad = [&](std::string_view why) {
    return fail(Code::kCorrupt, fmt::format("code of {}: {}; rebuild the pack", name, why),
                "cpu/loader");
  };
  if (bytes.size() < sizeof header)
    return bad(fmt::format("{} bytes are too few for a shared object", bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return bad("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN)
    return bad("not a 64-bit shared object");
  if (header.e_machine != EM_X86_64) {
    return fail(Code::kIncompatible,
                fmt::format("code of {}: ELF machine is {}, this process is x86-64 ({})", name,
                            header.e_machine, EM_X86_64),
                "cpu/loader");
  }
  return {};
}

bool write_all(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// The handle, or null with the reason.
void* open_library(const std::string& path, std::string& why) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* text = ::dlerror();
    why = text != nullptr ? text : "dlopen failed";
  }
  return handle;
}

// Folders where a private file may be executed from, the likeliest first.
std::vector<Path> private_parents() {
  std::vector<Path> parents;
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value == '/')
      parents.emplace_back(value);
  }
  parents.emplace_back("/tmp");
  if (Path cache = user_folders().cache; !cache.empty()) parents.push_back(std::move(cache));
  return parents;
}

void* open_from_file(const std::string& bytes, std::string& why) {
  for (const Path& parent : private_parents()) {
    auto folder =
        TempDir::create(parent, "opforge-code");  // 0700, removed at the end of this scope
    if (!folder) {
      why += fmt::format("; {}: {}", parent.string(), folder.error().message);
      continue;
    }
    const Path file = folder->path() / "code.so";
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    const bool written = fd >= 0 && write_all(fd, bytes);
    const int error = errno;
    if (fd >= 0) ::close(fd);
    if (!written) {
      why += fmt::format("; {}: {}", file.string(), std::strerror(error));
      continue;
    }
    std::string reason;
    if (void* handle = open_library(file.string(), reason); handle != nullptr) return handle;
    why += "; " + reason;
  }
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<HostCode>> HostCode::open(const std::string& name,
                                                 const std::string& bytes) {
  OPFORGE_TRY(check_elf(name, bytes));
  std::string why;
  const int fd = ::memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC);
  if (fd < 0) {
    why = fmt::format("memory file: {}", std::strerror(errno));
  } else if (!write_all(fd, bytes)) {
    why = fmt::format("memory file: {}", std::strerror(errno));
    ::close(fd);
  } else {
    void* handle = open_library(fmt::format("/proc/self/fd/{}", fd), why);
    if (handle != nullptr) return std::shared_ptr<HostCode>(new HostCode(handle, fd));
    ::close(fd);
  }
  if (void* handle = open_from_file(bytes, why); handle != nullptr) {
    log(LogLevel::kInfo, "cpu",
        "memory files cannot be executed here; code is loaded from private files");
    return std::shared_ptr<HostCode>(new HostCode(handle, -1));
  }
  return fail(Code::kIo, fmt::format("code of {} cannot be loaded: {}", name, why), "cpu/loader");
}

HostCode::~HostCode() {
  ::dlclose(handle_);
  if (fd_ >= 0) ::close(fd_);
}

void* HostCode::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace opforge
