// The bytes of a pack's header. Internal to the artifact layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "base/result.hpp"

namespace opforge {

// Not text, and it shows line-end conversion and cut 8th bits.
inline constexpr std::string_view kPackMagic{"\x89OFPACK\n", 8};
inline constexpr std::size_t kPackHeaderBytes = 256;
inline constexpr std::size_t kVersionBytes = 32;
inline constexpr std::uint64_t kPackAlign = 64;
inline constexpr std::uint64_t kMaxRootBytes = 64ull << 20;
inline constexpr std::uint64_t kMaxSectionBytes = 512ull << 20;
inline constexpr std::uint64_t kMaxCodeBytes = 1ull << 30;

//   offset  0  magic (8)            8  schema version (u32)    12  header bytes (u32)
//          16  file bytes (u64)    24  root offset (u64)       32  root bytes (u64)
//          40  SHA-256 of the root (32)    72  public key (32; zeros: unsigned)    104  signature
//          (64)
//         168  opforge version, zero-padded text (32)          200  zeros (56)
struct PackHeader {
  int schema_version = 0;
  std::uint64_t file_bytes = 0, root_offset = 0, root_bytes = 0;
  Digest root_digest;
  std::string signer, signature;  // hex; empty: unsigned
  std::string opforge_version;
};

std::string encode_header(const PackHeader& header);
// `bytes`: the first kPackHeaderBytes of the file. kCorrupt "not an opforge pack", or kIncompatible
// naming both schemas.
Result<PackHeader> decode_header(std::string_view bytes);
// What the signature is over.
std::string root_message(int schema_version, const Digest& root_digest);

}  // namespace opforge
