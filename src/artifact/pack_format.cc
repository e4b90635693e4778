#include "artifact/pack_format.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "artifact/pack.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/pack";

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

template <class T>
T get(std::string_view bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  return value;
}

std::string unhex(std::string_view hex, std::size_t size) {
  std::string out(size, '\0');
  sodium_hex2bin(reinterpret_cast<unsigned char*>(out.data()), size, hex.data(), hex.size(),
                 nullptr, nullptr, nullptr);
  return out;
}

std::string hex(std::string_view bytes) {
  std::string out(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  out.pop_back();
  return out;
}

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, text.find('\0'))) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out.empty() ? "unknown" : out;
}

}  // namespace

std::string encode_header(const PackHeader& header) {
  std::string out(kPackMagic);
  put(out, static_cast<std::uint32_t>(header.schema_version));
  put(out, static_cast<std::uint32_t>(kPackHeaderBytes));
  put(out, header.file_bytes);
  put(out, header.root_offset);
  put(out, header.root_bytes);
  out.append(reinterpret_cast<const char*>(header.root_digest.bytes.data()), 32);
  out += unhex(header.signer, 32);
  out += unhex(header.signature, 64);
  std::string version = header.opforge_version.substr(0, kVersionBytes);
  version.resize(kVersionBytes, '\0');
  out += version;
  out.resize(kPackHeaderBytes, '\0');
  return out;
}

Result<PackHeader> decode_header(std::string_view bytes) {
  if (bytes.size() < kPackMagic.size() || !bytes.starts_with(kPackMagic))
    return fail(Code::kCorrupt, "not an opforge pack (the file starts with other bytes)", kWhere);
  if (bytes.size() < kPackHeaderBytes)
    return fail(
        Code::kCorrupt,
        fmt::format("cut short: {} bytes, the header alone has {}", bytes.size(), kPackHeaderBytes),
        kWhere);
  PackHeader header;
  header.schema_version = static_cast<int>(get<std::uint32_t>(bytes, 8));
  header.opforge_version = printable(bytes.substr(168, kVersionBytes));
  if (header.schema_version != kPackSchemaVersion)
    return fail(
        Code::kIncompatible,
        fmt::format(
            "written by opforge {} with schema {}; this is opforge {}, which reads schema {}: "
            "build the pack again, or use the opforge that wrote it",
            header.opforge_version, header.schema_version, OPFORGE_VERSION, kPackSchemaVersion),
        kWhere);
  const auto version = bytes.substr(168, kVersionBytes);
  if (get<std::uint32_t>(bytes, 12) != kPackHeaderBytes || !all_zero(bytes.substr(200)) ||
      !all_zero(version.substr(std::min(version.find('\0'), version.size()))))
    return fail(Code::kCorrupt, "the header is damaged", kWhere);
  header.file_bytes = get<std::uint64_t>(bytes, 16);
  header.root_offset = get<std::uint64_t>(bytes, 24);
  header.root_bytes = get<std::uint64_t>(bytes, 32);
  std::memcpy(header.root_digest.bytes.data(), bytes.data() + 40, 32);
  const auto key = bytes.substr(72, 32), signature = bytes.substr(104, 64);
  if (all_zero(key) && !all_zero(signature))
    return fail(Code::kCorrupt, "the header is damaged: a signature without a key", kWhere);
  if (!all_zero(key)) {
    header.signer = hex(key);
    header.signature = hex(signature);
  }
  return header;
}

std::string root_message(int schema_version, const Digest& root_digest) {
  return fmt::format("opforge pack {}\n{}\n", schema_version, root_digest.hex());
}

}  // namespace opforge
