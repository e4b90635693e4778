// The key of a call: everything that dispatch looks at, as bytes. Built on the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "runtime/runtime.hpp"
#include "tensor/view.hpp"

namespace opforge {

// What of the process and the stream decides beside the call itself.
struct CallState {
  bool sealed = false;
  bool development = false;
  bool capturing = false;
};

class CallKey {
 public:
  CallKey(std::string_view op, std::span<const TensorView> tensors,
          std::span<const CallAttribute> attributes, const CallOptions& options,
          const CallState& state) {
    text(op);
    put(static_cast<std::uint32_t>(tensors.size()));
    for (const TensorView& view : tensors) tensor(view);
    for (const CallAttribute& one : attributes) attribute(one);
    const Head head{options.contract
                        ? static_cast<std::uint8_t>(1 + static_cast<int>(*options.contract))
                        : std::uint8_t{0},
                    static_cast<std::uint8_t>(options.proof),
                    options.allow_ptx,
                    options.facts.lockstep,
                    state.sealed,
                    state.development,
                    state.capturing,
                    0,
                    options.facts.world_size,
                    options.facts.rank};
    put(head);
    text(options.backend);
    hash_ = fast_hash(data(), size_);
  }
  CallKey(const CallKey&) = delete;
  CallKey& operator=(const CallKey&) = delete;

  std::uint64_t hash() const { return hash_; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }
  bool equals(std::span<const std::byte> other) const {
    return other.size() == size_ && std::memcmp(other.data(), data(), size_) == 0;
  }

 private:
  static constexpr std::size_t kInlineBytes = 1536;  // eight tensors of rank eight
  static constexpr int kMostAlignBits = 8;           // as the symbol x.align: at most 256

  struct Head {
    std::uint8_t contract, proof, allow_ptx, lockstep, sealed, development, capturing, unused;
    std::int32_t world_size, rank;
  };
  struct TensorHead {
    std::uint8_t dtype, device, align_bits;
    std::int8_t rank;
    std::int32_t ordinal;
  };

  const std::byte* data() const { return large_.empty() ? inline_ : large_.data(); }

  void append(const void* from, std::size_t bytes) {
    if (large_.empty() && size_ + bytes <= kInlineBytes) [[likely]] {
      std::memcpy(inline_ + size_, from, bytes);
    } else {
      if (large_.empty()) large_.assign(inline_, inline_ + size_);
      const auto* first = static_cast<const std::byte*>(from);
      large_.insert(large_.end(), first, first + bytes);
    }
    size_ += bytes;
  }
  template <class T>
  void put(const T& value) {
    append(&value, sizeof value);
  }
  void text(std::string_view value) {
    put(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  void tensor(const TensorView& view) {
    if (!view.present()) {
      put(TensorHead{0, 0, 0, -1, 0});
      return;
    }
    const auto address =
        reinterpret_cast<std::uintptr_t>(view.data) | (std::uintptr_t{1} << kMostAlignBits);
    put(TensorHead{static_cast<std::uint8_t>(view.dtype),
                   static_cast<std::uint8_t>(view.device.kind),
                   static_cast<std::uint8_t>(__builtin_ctzll(address)),
                   static_cast<std::int8_t>(view.rank), view.device.ordinal});
    // A rank out of range is refused later, by name.
    const auto rank = static_cast<std::size_t>(view.rank > kMaxRank ? 0 : view.rank);
    append(view.dims.data(), rank * sizeof(std::int64_t));
    append(view.strides.data(), rank * sizeof(std::int64_t));
  }
  void attribute(const CallAttribute& one) {
    text(one.name);
    put(one.kind);
    switch (one.kind) {
      case CallAttribute::Kind::kInt:
        return put(one.integer);
      case CallAttribute::Kind::kFloat:
        return put(one.number);
      case CallAttribute::Kind::kText:
        return text(one.text);
    }
  }

  std::byte inline_[kInlineBytes];
  std::size_t size_ = 0;
  std::vector<std::byte> large_;
  std::uint64_t hash_ = 0;
};

}  // namespace opforge
