// The argument block of one launch: the constant bytes of a prepared step with this call's pointers
// written in.
#pragma once

#include <cstring>
#include <memory>

#include "runtime/launcher.hpp"

namespace opforge {

// What a pointer patch points at. Absent and empty tensors (and an absent workspace) stay null
// whatever is added.
inline void* patched_pointer(std::int32_t tensor, std::int64_t add_bytes, void* const* tensors,
                             void* workspace) {
  void* base = tensor < 0 ? workspace : tensors[tensor];
  return base == nullptr ? nullptr : static_cast<char*>(base) + add_bytes;
}

// Lives on the stack of a launch. Only blocks beyond kInlineBytes allocate. Tensor maps are left to
// the launcher.
class ArgumentBlock {
 public:
  static constexpr std::size_t kInlineBytes = 1024;

  ArgumentBlock(const PreparedStep& step, void* const* tensors, void* workspace) {
    const std::size_t size_bytes = step.arguments.size();
    if (size_bytes > kInlineBytes) [[unlikely]] {
      large_ = std::make_unique<std::byte[]>(size_bytes + kAlign);
      const auto address = reinterpret_cast<std::uintptr_t>(large_.get());
      data_ = large_.get() + ((kAlign - address % kAlign) % kAlign);
    }
    std::memcpy(data_, step.arguments.data(), size_bytes);
    for (const auto& patch : step.pointers) {
      void* pointer = patched_pointer(patch.tensor, patch.add_bytes, tensors, workspace);
      std::memcpy(data_ + patch.offset_bytes, &pointer, sizeof pointer);
    }
  }
  ArgumentBlock(const ArgumentBlock&) = delete;
  ArgumentBlock& operator=(const ArgumentBlock&) = delete;

  std::byte* data() { return data_; }

 private:
  static constexpr std::size_t kAlign = 64;
  alignas(kAlign) std::byte inline_[kInlineBytes];
  std::byte* data_ = inline_;
  std::unique_ptr<std::byte[]> large_;
};

}  // namespace opforge
