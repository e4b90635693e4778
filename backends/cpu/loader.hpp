// Loading a shared object from bytes in memory.
#pragma once

#include <memory>
#include <string>

#include "runtime/launcher.hpp"

namespace opforge {

// A freestanding shared object that was opened from bytes. The library lives in a memory file whose
// descriptor stays open as long as the library does: dlopen compares path strings, so that a
// descriptor number met again would give the old library. Where memory files may not be executed it
// is opened from a private file, which is removed once it is mapped.
class HostCode : public LoadedCode {
 public:
  // `name` is shown by debuggers and /proc/self/maps. kCorrupt when the bytes are not an x86-64
  // shared object, or the loader refuses them; kIo when neither a memory file nor a private file
  // can be used (both reasons given).
  static Result<std::shared_ptr<HostCode>> open(const std::string& name, const std::string& bytes);
  ~HostCode() override;
  HostCode(const HostCode&) = delete;
  HostCode& operator=(const HostCode&) = delete;

  void* symbol(const char* name) const;  // null when absent

 private:
  HostCode(void* handle, int fd) : handle_(handle), fd_(fd) {}
  void* handle_;
  int fd_;  // -1: from a file
};

}  // namespace opforge
