// Changes to a pack's bytes as somebody would make them who knows the format: all digests are made
// right again.
#pragma once

#include <cstring>
#include <string>

#include "artifact/convert.hpp"
#include "artifact/pack_format.hpp"
#include "artifact/samples.hpp"

namespace opforge::samples {

struct Part {
  std::size_t offset, size;
};

inline Part root_of(const std::string& pack) {
  std::uint64_t at[2];
  std::memcpy(at, pack.data() + 24, sizeof at);
  return {at[0], at[1]};
}

inline Part section_of(const std::string& pack, int index) {
  const auto* ref =
      flatbuffers::GetRoot<fb::Root>(pack.data() + root_of(pack).offset)->sections()->Get(index);
  return {ref->offset(), ref->size_bytes()};
}

inline Part blobs_of(const std::string& pack) {
  const auto* root = flatbuffers::GetRoot<fb::Root>(pack.data() + root_of(pack).offset);
  return {root->blob_area_offset(), root->blob_area_bytes()};
}

// After a change of the root: its digest, and the signature when there is a key.
inline void reseal_root(std::string& pack, const SigningKey* key) {
  const Part part = root_of(pack);
  PackHeader header = *decode_header(std::string_view(pack).substr(0, kPackHeaderBytes));
  header.root_digest = sha256(std::string_view(pack).substr(part.offset, part.size));
  if (key != nullptr) {
    header.signer = key->public_hex();
    header.signature = key->sign(root_message(header.schema_version, header.root_digest));
  }
  pack.replace(0, kPackHeaderBytes, encode_header(header));
}

// Puts `bytes` in place of as many of section `index`, from `at`.
inline void change_section(std::string& pack, int index, std::size_t at, const std::string& bytes,
                           const SigningKey* key) {
  const Part part = section_of(pack, index);
  const auto digest = [&] {
    return sha256(std::string_view(pack).substr(part.offset, part.size)).hex();
  };
  const std::string before = digest();
  pack.replace(part.offset + at, bytes.size(), bytes);
  pack.replace(pack.find(before, root_of(pack).offset), 64, digest());
  reseal_root(pack, key);
}

}  // namespace opforge::samples
