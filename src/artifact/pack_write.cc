#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "artifact/convert.hpp"
#include "artifact/pack.hpp"
#include "artifact/pack_format.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/pack";
constexpr int kZstdLevel = 12;  // fixed: part of what makes the bytes the same

struct Blob {
  BlobRef ref;
  std::string stored;
};

// Compressed where that saves at least a tenth; one thread, fixed level, no checksum (we have a
// better one).
Result<Blob> make_blob(ZSTD_CCtx* context, const PackContents::Code& code) {
  Blob blob;
  blob.ref.digest = code.digest;
  blob.ref.size_bytes = code.bytes.size();
  std::string packed(ZSTD_compressBound(code.bytes.size()), '\0');
  const std::size_t size = ZSTD_compressCCtx(context, packed.data(), packed.size(),
                                             code.bytes.data(), code.bytes.size(), kZstdLevel);
  if (ZSTD_isError(size) != 0)
    return fail(Code::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(size)), kWhere);
  blob.ref.zstd = size * 10 <= code.bytes.size() * 9;
  packed.resize(size);
  blob.stored = blob.ref.zstd ? std::move(packed) : code.bytes;
  blob.ref.stored_bytes = blob.stored.size();
  return blob;
}

std::string bytes_of(const OperatorSection& section, std::span<const BlobRef> blobs) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  builder.Finish(FlatWriter(builder).section(section, blobs));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

// Sorts by a key made once for each item, and drops items of equal keys.
template <class T, class Key>
void sort_unique(std::vector<T>& items, Key key) {
  std::map<decltype(key(items.front())), T> sorted;
  for (auto& item : items) sorted.emplace(key(item), std::move(item));
  items.clear();
  for (auto& [ignored, item] : sorted) items.push_back(std::move(item));
}

// Artifacts by name, table entries and attestations by what they say.
Status canonical(OperatorSection& section) {
  const auto& name = section.signature.name;
  sort_unique(section.artifacts,
              [](const Artifact& a) { return std::pair(to_string(a.variant), artifact_bytes(a)); });
  for (std::size_t i = 1; i < section.artifacts.size(); ++i) {
    const auto &a = section.artifacts[i - 1], &b = section.artifacts[i];
    const auto variant = to_string(b.variant);
    if (to_string(a.variant) == variant)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: {} is there twice, with code keys {} and {}: take one of them",
                              name, variant, a.code_key.short_hex(), b.code_key.short_hex()),
                  kWhere);
  }
  for (const auto& artifact : section.artifacts)
    if (artifact.variant.op != name)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: holds an artifact of {}", name, artifact.variant.op), kWhere);
  sort_unique(section.table, [](const TableEntry& e) {
    return std::tuple(e.target, e.device_model, to_string(e.dtypes), e.dims, e.attributes, e.layout,
                      e.contract, e.code_key, e.median_us, e.baseline_us);
  });
  for (const auto& a : section.attestations)
    if (!attestation_signature_ok(a))
      return fail(
          Code::kUntrusted,
          fmt::format("{}: the attestation of {} on {} is not signed by {}, as it says", name,
                      a.variant, a.device_model, a.signer.empty() ? "anybody" : a.signer),
          kWhere);
  sort_unique(section.attestations,
              [](const Attestation& a) { return attestation_message(a) + a.signature; });
  return {};
}

// Code by digest, each once, and only what artifacts use.
Result<std::map<Digest, const PackContents::Code*>> used_codes(const PackContents& contents) {
  std::map<Digest, const PackContents::Code*> given, used;
  for (const auto& code : contents.codes) {
    if (sha256(code.bytes) != code.digest)
      return fail(
          Code::kInvalidArgument,
          fmt::format("code {} has other bytes than its digest says", code.digest.short_hex()),
          kWhere);
    if (code.bytes.empty() || code.bytes.size() > kMaxCodeBytes)
      return fail(Code::kInvalidArgument,
                  fmt::format("code {} has {} bytes: from 1 to {} expected",
                              code.digest.short_hex(), code.bytes.size(), kMaxCodeBytes),
                  kWhere);
    given.emplace(code.digest, &code);
  }
  for (const auto& section : contents.sections)
    for (const auto& artifact : section.artifacts) {
      const auto found = given.find(artifact.code_digest);
      if (found == given.end())
        return fail(Code::kInvalidArgument,
                    fmt::format("the code of {} ({}) is missing", to_string(artifact.variant),
                                artifact.code_digest.short_hex()),
                    kWhere);
      used.insert(*found);
    }
  return used;
}

void pad(std::string& out) {
  out.resize((out.size() + kPackAlign - 1) / kPackAlign * kPackAlign, '\0');
}

struct Section {
  std::string name, bytes;
  std::uint64_t offset = 0;
  std::uint32_t variants = 0;
};

std::string root_bytes(const std::vector<Section>& sections, const std::string& version,
                       std::uint64_t blob_offset, std::uint64_t blob_bytes,
                       std::size_t blob_count) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::SectionRef>> refs;
  for (const auto& section : sections) {
    const auto name = builder.CreateString(section.name);
    const auto digest = builder.CreateString(sha256(section.bytes).hex());
    refs.push_back(fb::CreateSectionRef(builder, name, section.offset, section.bytes.size(), digest,
                                        section.variants));
  }
  const auto written_by = builder.CreateString(version);
  const auto list = builder.CreateVector(refs);
  builder.Finish(fb::CreateRoot(builder, kPackSchemaVersion, written_by, list, blob_offset,
                                blob_bytes, static_cast<std::uint32_t>(blob_count)),
                 fb::RootIdentifier());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace

Result<std::string> pack_bytes(PackContents contents, const SigningKey* key) {
  auto& sections = contents.sections;
  std::sort(sections.begin(), sections.end(),
            [](const OperatorSection& a, const OperatorSection& b) {
              return a.signature.name < b.signature.name;
            });
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (i > 0 && sections[i].signature.name == sections[i - 1].signature.name)
      return fail(Code::kInvalidArgument,
                  fmt::format("operator '{}' is there twice", sections[i].signature.name), kWhere);
    OPFORGE_TRY(canonical(sections[i]));
  }
  OPFORGE_ASSIGN(const auto codes, used_codes(contents));

  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  if (context == nullptr) return fail(Code::kOutOfMemory, "no memory to compress code", kWhere);
  std::map<Digest, BlobRef> blobs;
  std::string blob_area;
  for (const auto& [digest, code] : codes) {
    OPFORGE_ASSIGN(Blob blob, make_blob(context.get(), *code));
    pad(blob_area);
    blob.ref.offset = blob_area.size();
    blob_area += blob.stored;
    blobs.emplace(digest, blob.ref);
  }
  std::vector<Section> written;
  std::string out(kPackHeaderBytes, '\0');
  for (const auto& section : sections) {
    std::map<Digest, BlobRef> own;
    for (const auto& artifact : section.artifacts) own.insert(*blobs.find(artifact.code_digest));
    std::vector<BlobRef> refs;
    for (const auto& [ignored, ref] : own) refs.push_back(ref);
    pad(out);
    written.push_back({section.signature.name, bytes_of(section, refs), out.size(),
                       static_cast<std::uint32_t>(section.artifacts.size())});
    out += written.back().bytes;
  }
  pad(out);
  const std::uint64_t blob_offset = out.size();
  out += blob_area;
  pad(out);
  std::string version =
      contents.opforge_version.empty() ? OPFORGE_VERSION : contents.opforge_version;
  version = version.substr(0, kVersionBytes);
  for (char& c : version)
    if (c < 0x20 || c > 0x7e) c = '?';
  const std::string root =
      root_bytes(written, version, blob_offset, blob_area.size(), blobs.size());
  PackHeader header;
  header.schema_version = kPackSchemaVersion;
  header.opforge_version = version;
  header.root_offset = out.size();
  header.root_bytes = root.size();
  header.file_bytes = out.size() + root.size();
  header.root_digest = sha256(root);
  if (key != nullptr) {
    header.signer = key->public_hex();
    header.signature = key->sign(root_message(header.schema_version, header.root_digest));
  }
  out += root;
  out.replace(0, kPackHeaderBytes, encode_header(header));
  return out;
}

Status write_pack(const Path& path, PackContents contents, const SigningKey* key) {
  OPFORGE_ASSIGN(const std::string bytes, pack_bytes(std::move(contents), key));
  if (auto written = write_file_atomic(path, bytes); !written) {
    written.error().message = "the pack was not written: " + written.error().message;
    return fail(std::move(written.error()));
  }
  return {};
}

}  // namespace opforge
