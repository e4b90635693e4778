// A library opened at run time. Drivers are never linked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace opforge {

class DynamicLibrary {
 public:
  // Try each name or path in order (zero-byte files and stubs are skipped with the reason). On failure the message lists
  // every attempt and why it failed.
  static Result<DynamicLibrary> open_first(std::span<const std::string> candidates);
  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();
  void* symbol(const char* name) const;  // null when absent
  const std::string& path() const { return path_; }
  const std::vector<std::string>& attempts() const { return attempts_; }  // "path: reason" of those that failed before

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::vector<std::string> attempts_;
};

}  // namespace opforge
