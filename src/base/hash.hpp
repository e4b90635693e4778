// SHA-256 digests, and fingerprints over length-prefixed fields so that no two field lists collide by concatenation.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace opforge {

struct Digest {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
  bool is_zero() const { return *this == Digest{}; }
  std::string hex() const;                                // 64 lower-case hex digits
  std::string short_hex() const;                          // the first 16 of them
  static Result<Digest> from_hex(std::string_view text);  // kInvalidArgument unless 64 hex digits
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view bytes);

// Hashes named fields in the order added: each as length-prefixed name and length-prefixed value.
class Fingerprint {
 public:
  Fingerprint();
  Fingerprint& add(std::string_view name, std::string_view value);
  Fingerprint& add(std::string_view name, std::int64_t value);
  Fingerprint& add(std::string_view name, double value);  // by bit pattern
  Fingerprint& add(std::string_view name, const Digest& value);
  Digest finish() const;  // may be called repeatedly; later adds continue

 private:
  alignas(16) std::array<std::byte, 128> state_;
};

// For the hash tables of the launch path: not for content addressing. 64-bit, well mixed.
std::uint64_t fast_hash(const void* data, std::size_t size_bytes, std::uint64_t seed = 0);

}  // namespace opforge
