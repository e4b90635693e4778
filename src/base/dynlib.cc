#include "base/dynlib.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace opforge {
namespace {

bool is_stub(std::string_view path) { return path.find("/stubs/") != std::string_view::npos; }

// Why a path is not worth opening; empty when it is. Bare names are left to the loader's search.
std::string reason_to_skip(const std::string& name) {
  if (name.find('/') == std::string::npos) return {};
  struct stat info {};
  if (stat(name.c_str(), &info) != 0) return std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "not a file";
  if (info.st_size == 0) return "empty file";
  if (is_stub(name)) return "a stub for linking, not a driver";
  return {};
}

std::string loaded_path(void* handle, const std::string& name) {
  struct link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != 0) {
    return map->l_name;
  }
  return name;
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open_first(std::span<const std::string> candidates) {
  DynamicLibrary library;
  for (const auto& name : candidates) {
    if (auto reason = reason_to_skip(name); !reason.empty()) {
      library.attempts_.push_back(name + ": " + reason);
      continue;
    }
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      library.attempts_.push_back(name + ": " + (reason != nullptr ? reason : "cannot be loaded"));
      continue;
    }
    auto path = loaded_path(handle, name);
    if (is_stub(path)) {
      dlclose(handle);
      library.attempts_.push_back(name + ": " + path + " is a stub for linking, not a driver");
      continue;
    }
    library.handle_ = handle;
    library.path_ = std::move(path);
    return library;
  }
  if (candidates.empty())
    return fail(Code::kNotFound, "no library name was given to look for", "base/dynlib");
  return fail(Code::kNotFound,
              "none of these libraries could be loaded: " + join(library.attempts_, "; "),
              "base/dynlib");
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      attempts_(std::move(other.attempts_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  std::swap(attempts_, other.attempts_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

}  // namespace opforge
