#include "base/hash.hpp"

#include <sodium.h>

#include <cstring>

namespace opforge {
namespace {

static_assert(sizeof(crypto_hash_sha256_state) <= 128, "Fingerprint::state_ is too small");

crypto_hash_sha256_state* state_of(std::array<std::byte, 128>& bytes) {
  return reinterpret_cast<crypto_hash_sha256_state*>(bytes.data());
}

void update(std::array<std::byte, 128>& state, const void* data, std::size_t size) {
  crypto_hash_sha256_update(state_of(state), static_cast<const unsigned char*>(data), size);
}

// Little-endian whatever the host, so that keys agree between machines.
void update_u64(std::array<std::byte, 128>& state, std::uint64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  update(state, bytes, sizeof bytes);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t read_u64(const unsigned char* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace

std::string Digest::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Digest::short_hex() const { return hex().substr(0, 16); }

Result<Digest> Digest::from_hex(std::string_view text) {
  Digest digest;
  if (text.size() != 64) {
    return fail(Code::kInvalidArgument,
                "a digest is 64 hex digits, got " + std::to_string(text.size()) + " characters",
                "base/hash");
  }
  for (std::size_t i = 0; i < 32; ++i) {
    const int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return fail(Code::kInvalidArgument, "not a hex digit in digest '" + std::string(text) + "'",
                  "base/hash");
    }
    digest.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  crypto_hash_sha256(digest.bytes.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  return digest;
}

Digest sha256(std::string_view bytes) {
  return sha256(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

Fingerprint::Fingerprint() : state_{} { crypto_hash_sha256_init(state_of(state_)); }

Fingerprint& Fingerprint::add(std::string_view name, std::string_view value) {
  update_u64(state_, name.size());
  update(state_, name.data(), name.size());
  update_u64(state_, value.size());
  update(state_, value.data(), value.size());
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view name, std::int64_t value) {
  const std::string text = "i" + std::to_string(value);
  return add(name, std::string_view(text));
}

Fingerprint& Fingerprint::add(std::string_view name, double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::string text = "f" + std::to_string(bits);
  return add(name, std::string_view(text));
}

Fingerprint& Fingerprint::add(std::string_view name, const Digest& value) {
  return add(name, std::string_view(reinterpret_cast<const char*>(value.bytes.data()),
                                    value.bytes.size()));
}

Digest Fingerprint::finish() const {
  auto copy = state_;
  Digest digest;
  crypto_hash_sha256_final(state_of(copy), digest.bytes.data());
  return digest;
}

// Two lanes of multiply-and-fold, as in wyhash (public domain, Wang Yi).
std::uint64_t fast_hash(const void* data, std::size_t size_bytes, std::uint64_t seed) {
  constexpr std::uint64_t k0 = 0xa0761d6478bd642fULL, k1 = 0xe7037ed1a0b428dbULL,
                          k2 = 0x8ebc6af09c88c6e3ULL;
  const auto* p = static_cast<const unsigned char*>(data);
  std::size_t left = size_bytes;
  std::uint64_t hash = mix(seed ^ k0, k1);  // mixed first: a seed must not look like a changed word
  while (left >= 16) {
    hash = mix(read_u64(p) ^ k1, read_u64(p + 8) ^ hash);
    p += 16;
    left -= 16;
  }
  unsigned char tail[16] = {};
  if (left > 0) std::memcpy(tail, p, left);
  hash = mix(read_u64(tail) ^ k1, read_u64(tail + 8) ^ hash);
  return mix(hash ^ k2, static_cast<std::uint64_t>(size_bytes) ^ k1);
}

}  // namespace opforge
