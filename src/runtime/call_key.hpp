// The key of a call: everything that dispatch looks at. Built on the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/runtime.hpp"
#include "tensor/view.hpp"

namespace opforge {

// What of the process and the stream decides beside the call itself.
struct CallState {
  bool sealed = false;
  bool development = false;
  bool capturing = false;
};

// Built of whole words, which is what the time of a call by signature goes into: one header word
// for each thing, texts in words of their bytes.
class CallKey {
 public:
  CallKey(std::string_view op, std::span<const TensorView> tensors,
          std::span<const CallAttribute> attributes, const CallOptions& options,
          const CallState& state) {
    std::uint64_t* head = room(2);
    head[0] = (options.contract ? 1u + static_cast<unsigned>(*options.contract) : 0u) |
              static_cast<std::uint64_t>(options.proof) << 8 |
              std::uint64_t{options.allow_ptx} << 16 | std::uint64_t{options.facts.lockstep} << 17 |
              std::uint64_t{state.sealed} << 18 | std::uint64_t{state.development} << 19 |
              std::uint64_t{state.capturing} << 20 |
              std::uint64_t{static_cast<std::uint32_t>(options.facts.world_size)} << 32;
    head[1] = tensors.size() | static_cast<std::uint64_t>(options.facts.rank) << 32;
    text(op, 0);
    text(options.backend, 0);
    for (const TensorView& view : tensors) tensor(view);
    for (const CallAttribute& one : attributes) attribute(one);
    hash_ = hash_words();
  }
  CallKey(const CallKey&) = delete;
  CallKey& operator=(const CallKey&) = delete;

  std::uint64_t hash() const { return hash_; }
  std::span<const std::uint64_t> words() const { return {data(), size_}; }
  bool equals(std::span<const std::uint64_t> other) const {
    return other.size() == size_ &&
           std::memcmp(other.data(), data(), size_ * sizeof(std::uint64_t)) == 0;
  }

 private:
  static constexpr std::size_t kInlineWords = 192;  // eight tensors of rank eight
  static constexpr int kMostAlignBits = 8;          // as the symbol x.align: at most 256

  const std::uint64_t* data() const { return large_.empty() ? inline_ : large_.data(); }

  std::uint64_t* room(std::size_t words) {
    const std::size_t at = size_;
    size_ += words;
    if (size_ <= kInlineWords) [[likely]]
      return inline_ + at;
    if (large_.empty()) large_.assign(inline_, inline_ + at);
    large_.resize(size_);
    return large_.data() + at;
  }

  // The length and `extra` in one word, then the bytes. The last word may repeat bytes of the one
  // before, which a length makes unambiguous.
  void text(std::string_view value, std::uint64_t extra) {
    const std::size_t bytes = value.size();
    std::uint64_t* at = room(1 + (bytes + 7) / 8);
    *at++ = bytes | extra << 56;
    if (bytes >= 8) {
      for (std::size_t i = 0; i + 8 <= bytes; i += 8) std::memcpy(at++, value.data() + i, 8);
      if (bytes % 8 != 0) std::memcpy(at, value.data() + bytes - 8, 8);
    } else if (bytes != 0) {
      *at = 0;
      for (std::size_t i = 0; i < bytes; ++i) {
        *at |= std::uint64_t{static_cast<unsigned char>(value[i])} << 8 * i;
      }
    }
  }

  void tensor(const TensorView& view) {
    if (!view.present()) {
      *room(1) = ~std::uint64_t{0};
      return;
    }
    const auto address =
        reinterpret_cast<std::uintptr_t>(view.data) | (std::uintptr_t{1} << kMostAlignBits);
    // A rank out of range is refused later, by name.
    const int rank = view.rank > kMaxRank ? 0 : view.rank;
    std::uint64_t* at = room(1 + 2 * static_cast<std::size_t>(rank));
    *at++ = static_cast<std::uint64_t>(view.dtype) |
            static_cast<std::uint64_t>(view.device.kind) << 8 |
            static_cast<std::uint64_t>(__builtin_ctzll(address)) << 16 |
            static_cast<std::uint64_t>(static_cast<std::uint8_t>(view.rank)) << 24 |
            static_cast<std::uint64_t>(static_cast<std::uint32_t>(view.device.ordinal)) << 32;
    for (int i = 0; i < rank; ++i) {
      *at++ = static_cast<std::uint64_t>(view.dims[i]);
      *at++ = static_cast<std::uint64_t>(view.strides[i]);
    }
  }

  void attribute(const CallAttribute& one) {
    text(one.name, 1 + static_cast<std::uint64_t>(one.kind));
    switch (one.kind) {
      case CallAttribute::Kind::kInt:
        *room(1) = static_cast<std::uint64_t>(one.integer);
        return;
      case CallAttribute::Kind::kFloat:
        std::memcpy(room(1), &one.number, sizeof one.number);
        return;
      case CallAttribute::Kind::kText:
        text(one.text, 0);
        return;
    }
  }

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  // As fast_hash(), in two lanes, so that one multiplication does not wait for the other.
  std::uint64_t hash_words() const {
    constexpr std::uint64_t k0 = 0xa0761d6478bd642f, k1 = 0xe7037ed1a0b428db,
                            k2 = 0x8ebc6af09c88c6e3;
    const std::uint64_t* at = data();
    std::uint64_t a = k0 ^ size_, b = k2;
    std::size_t left = size_;
    for (; left >= 4; left -= 4, at += 4) {
      a = mix(at[0] ^ k1, at[1] ^ a);
      b = mix(at[2] ^ k2, at[3] ^ b);
    }
    for (; left != 0; --left) a = mix(*at++ ^ k1, a ^ k0);
    return mix(a ^ k2, b ^ k1);
  }

  std::uint64_t inline_[kInlineWords];
  std::size_t size_ = 0;
  std::vector<std::uint64_t> large_;
  std::uint64_t hash_ = 0;
};

}  // namespace opforge
