#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "artifact/convert.hpp"
#include "artifact/pack.hpp"
#include "artifact/pack_format.hpp"
#include "base/log.hpp"

namespace opforge {
namespace {

constexpr char kWhere[] = "artifact/pack";

// A section unfolds to a few times its size, since launch records are shared in it; this only stops
// absurd ones.
std::uint64_t budget_for(std::uint64_t stored_bytes) { return 256 * stored_bytes + (8ull << 20); }

template <class Table>
Result<const Table*> verified(const std::string& bytes, const char* identifier, const char* what) {
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                                 kFlatMaxDepth, kFlatMaxTables);
  if (bytes.empty() || !verifier.VerifyBuffer<Table>(identifier))
    return fail(Code::kCorrupt, fmt::format("{} is malformed", what), kWhere);
  return flatbuffers::GetRoot<Table>(bytes.data());
}

struct Slot {
  std::string name;
  std::uint64_t offset = 0, size_bytes = 0;
  std::uint32_t variants = 0;
  Digest digest;
  std::mutex mutex;  // guards what follows: loaded once
  std::shared_ptr<const OperatorSection> section;
  std::map<Digest, BlobRef> blobs;
  std::string
      wrong_attestation;  // of an unsigned pack: the first that was dropped for its signature
};

Result<std::string> decompress(const std::string& stored, const BlobRef& blob) {
  if (blob.size_bytes > kMaxCodeBytes ||
      ZSTD_getFrameContentSize(stored.data(), stored.size()) != blob.size_bytes)
    return fail(Code::kCorrupt, "its compressed size disagrees with the section", kWhere);
  std::string code(blob.size_bytes, '\0');
  const std::size_t size = ZSTD_decompress(code.data(), code.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0 || size != code.size())
    return fail(Code::kCorrupt, "it cannot be decompressed", kWhere);
  return code;
}

}  // namespace

struct Pack::State {
  std::string path;
  Trust trust;
  MappedFile file;
  PackInfo info;
  std::vector<std::unique_ptr<Slot>> slots;  // by name
  std::uint64_t blob_offset = 0, blob_bytes = 0, root_offset = 0;

  Error named(Error error) const {
    error.message = fmt::format("pack '{}': {}", path, error.message);
    if (error.code == Code::kCorrupt) error.message += "; get or build it again";
    return error;
  }
  Status open(const PackHeader& header);
  Status check_signature(const PackHeader& header) const;
  Status read_root(const std::string& bytes);
  Slot* find(std::string_view op) const;
  Status load(Slot& slot);
  void drop_unproved(Slot& slot, OperatorSection& section) const;
  Result<std::string> code(const BlobRef& blob) const;
  Status check_padding() const;
};

Status Pack::State::check_signature(const PackHeader& header) const {
  if (header.signer.empty()) {
    if (trust.allow_unsigned) return {};
    return fail(
        Code::kUntrusted,
        "it is not signed: sign it with `opforge pack sign`, or allow unsigned code by name "
        "(--allow-unsigned)",
        kWhere);
  }
  if (!verify_signature(header.signer, root_message(header.schema_version, header.root_digest),
                        header.signature))
    return fail(
        Code::kUntrusted,
        fmt::format("it was altered after it was signed: the signature by {} is not of this root",
                    header.signer),
        kWhere);
  if (!trust.trusts(header.signer))
    return fail(Code::kUntrusted,
                fmt::format("it is signed by {}, which is not trusted here: if you know this key, "
                            "run `opforge trust "
                            "add {}` or name it in OPFORGE_TRUST",
                            header.signer, header.signer),
                kWhere);
  return {};
}

Status Pack::State::open(const PackHeader& header) {
  if (header.file_bytes != file.size_bytes())
    return fail(Code::kCorrupt,
                fmt::format("cut short or extended: {} bytes, {} expected", file.size_bytes(),
                            header.file_bytes),
                kWhere);
  if (header.root_bytes > kMaxRootBytes || header.root_offset < kPackHeaderBytes ||
      header.root_offset > header.file_bytes ||
      header.root_bytes != header.file_bytes - header.root_offset)
    return fail(Code::kCorrupt, "the header is damaged: its root lies outside of the file", kWhere);
  OPFORGE_ASSIGN(const std::string root, file.copy(header.root_offset, header.root_bytes));
  if (sha256(root) != header.root_digest)
    return fail(Code::kCorrupt, "the root is damaged: its SHA-256 is not the one in the header",
                kWhere);
  OPFORGE_TRY(check_signature(header));
  info.schema_version = header.schema_version;
  info.signer = header.signer;
  info.file_bytes = header.file_bytes;
  info.root_digest = header.root_digest;
  root_offset = header.root_offset;
  OPFORGE_TRY(read_root(root));
  if (info.opforge_version != header.opforge_version)
    return fail(Code::kCorrupt, "the header is damaged: its version is not the one in the root",
                kWhere);
  if (blob_offset < kPackHeaderBytes || blob_offset > header.root_offset ||
      blob_bytes > header.root_offset - blob_offset)
    return fail(Code::kCorrupt, "the blob area lies outside of the file", kWhere);
  for (const auto& slot : slots)
    if (slot->offset < kPackHeaderBytes || slot->offset > blob_offset ||
        slot->size_bytes > blob_offset - slot->offset || slot->size_bytes > kMaxSectionBytes)
      return fail(Code::kCorrupt, fmt::format("section '{}' lies outside of the file", slot->name),
                  kWhere);
  return {};
}

Status Pack::State::read_root(const std::string& bytes) {
  OPFORGE_ASSIGN(const fb::Root* root, verified<fb::Root>(bytes, fb::RootIdentifier(), "the root"));
  if (root->schema_version() != kPackSchemaVersion)
    return fail(Code::kIncompatible,
                fmt::format("its root has schema {}, this opforge reads {}", root->schema_version(),
                            kPackSchemaVersion),
                kWhere);
  FlatReader reader(budget_for(bytes.size()));
  info.opforge_version = reader.text(root->opforge_version());
  blob_offset = root->blob_area_offset();
  blob_bytes = info.blob_bytes = root->blob_area_bytes();
  info.blob_count = root->blob_count();
  if (root->sections() != nullptr)
    for (const auto* ref : *root->sections()) {
      auto slot = std::make_unique<Slot>();
      slot->name = reader.text(ref->name());
      slot->offset = ref->offset();
      slot->size_bytes = ref->size_bytes();
      slot->variants = ref->variants();
      slot->digest = reader.digest(ref->digest(), "the digest of a section");
      OPFORGE_TRY(reader.status());
      if (!slots.empty() && slots.back()->name >= slot->name)
        return fail(Code::kCorrupt, "the root is malformed: its sections are not in order", kWhere);
      info.operators.push_back({slot->name, slot->size_bytes, slot->variants});
      slots.push_back(std::move(slot));
    }
  return reader.status();
}

Slot* Pack::State::find(std::string_view op) const {
  const auto at =
      std::lower_bound(slots.begin(), slots.end(), op,
                       [](const auto& slot, std::string_view name) { return slot->name < name; });
  return at != slots.end() && (*at)->name == op ? at->get() : nullptr;
}

// Nobody answers for the contents of an unsigned pack: only attestations that stand alone count.
void Pack::State::drop_unproved(Slot& slot, OperatorSection& section) const {
  if (!info.signer.empty()) return;
  std::erase_if(section.attestations, [&](const Attestation& a) {
    const bool right = attestation_signature_ok(a);
    if (right && trust.trusts(a.signer)) return false;
    const auto message =
        fmt::format("attestation of {} on {} by {} is not used: {}", a.variant, a.device_model,
                    a.signer, right ? "its signer is not trusted" : "its signature is wrong");
    log(LogLevel::kWarning, "pack", fmt::format("pack '{}': {}", path, message));
    if (!right && slot.wrong_attestation.empty()) slot.wrong_attestation = message;
    return true;
  });
}

// Fills the slot; the caller holds its mutex.
Status Pack::State::load(Slot& slot) {
  if (slot.section != nullptr) return {};
  const std::string what = fmt::format("section '{}'", slot.name);
  OPFORGE_ASSIGN(const std::string bytes, file.copy(slot.offset, slot.size_bytes));
  if (sha256(bytes) != slot.digest)
    return fail(Code::kCorrupt,
                fmt::format("{} is damaged: its SHA-256 is not the one in the root", what), kWhere);
  OPFORGE_ASSIGN(const fb::Section* stored, verified<fb::Section>(bytes, nullptr, what.c_str()));
  FlatReader reader(budget_for(bytes.size()));
  auto section = std::make_shared<OperatorSection>(reader.section(stored));
  std::map<Digest, BlobRef> blobs;
  if (stored->blobs() != nullptr)
    for (const auto* ref : *stored->blobs()) {
      const BlobRef blob = reader.blob(ref);
      if (!reader.ok()) break;
      if (blob.offset > blob_bytes || blob.stored_bytes > blob_bytes - blob.offset ||
          (!blob.zstd && blob.stored_bytes != blob.size_bytes))
        return fail(
            Code::kCorrupt,
            fmt::format("{}: blob {} lies outside of the file", what, blob.digest.short_hex()),
            kWhere);
      blobs.emplace(blob.digest, blob);
    }
  if (auto status = reader.status(); !status)
    return fail(Code::kCorrupt, fmt::format("{}: {}", what, status.error().message), kWhere);
  if (section->signature.name != slot.name || section->artifacts.size() != slot.variants)
    return fail(Code::kCorrupt,
                fmt::format("{} holds {} with {} variants", what, section->signature.name,
                            section->artifacts.size()),
                kWhere);
  for (const auto& artifact : section->artifacts)
    if (!blobs.contains(artifact.code_digest) || artifact.variant.op != slot.name)
      return fail(Code::kCorrupt,
                  fmt::format("{}: {} has no code", what, to_string(artifact.variant)), kWhere);
  drop_unproved(slot, *section);
  slot.blobs = std::move(blobs);
  slot.section = std::move(section);
  return {};
}

Result<std::string> Pack::State::code(const BlobRef& blob) const {
  const std::string what = fmt::format("code {}", blob.digest.short_hex());
  OPFORGE_ASSIGN(std::string bytes, file.copy(blob_offset + blob.offset, blob.stored_bytes));
  if (blob.zstd) {
    auto code = decompress(bytes, blob);
    if (!code)
      return fail(code.error().code, fmt::format("{} is damaged: {}", what, code.error().message),
                  kWhere);
    bytes = std::move(*code);
  }
  if (sha256(bytes) != blob.digest)
    return fail(Code::kCorrupt, fmt::format("{} is damaged: its SHA-256 differs", what), kWhere);
  return bytes;
}

// Between the parts, which have digests, there are zeros only: nothing can hide in a pack. All
// slots are loaded.
Status Pack::State::check_padding() const {
  std::map<std::uint64_t, std::uint64_t> parts{{0, kPackHeaderBytes}};
  for (const auto& slot : slots) {
    parts[slot->offset] = slot->size_bytes;
    for (const auto& [ignored, blob] : slot->blobs)
      parts[blob_offset + blob.offset] = blob.stored_bytes;
  }
  std::uint64_t end = 0;
  parts[root_offset] = info.file_bytes - root_offset;
  for (const auto& [offset, size] : parts) {
    if (offset > end) {
      if (offset - end >= kPackAlign)
        return fail(Code::kCorrupt, fmt::format("bytes {} to {} belong to nothing", end, offset),
                    kWhere);
      OPFORGE_ASSIGN(const std::string gap, file.copy(end, offset - end));
      if (gap.find_first_not_of('\0') != std::string::npos)
        return fail(Code::kCorrupt, fmt::format("the padding at byte {} is damaged", end), kWhere);
    }
    end = std::max(end, offset + size);
  }
  return {};
}

Pack::Pack(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pack::~Pack() = default;
const PackInfo& Pack::info() const { return state_->info; }
std::string Pack::name() const { return state_->path; }

namespace {
Result<PackHeader> header_of(const MappedFile& file) {
  OPFORGE_ASSIGN(const std::string head,
                 file.copy(0, std::min<std::uint64_t>(kPackHeaderBytes, file.size_bytes())));
  return decode_header(head);
}
}  // namespace

Result<std::string> pack_signer(const Path& path) {
  OPFORGE_ASSIGN(const auto file, MappedFile::open(path));
  auto header = header_of(file);
  if (!header)
    return fail(header.error().code,
                fmt::format("pack '{}': {}", path.string(), header.error().message), kWhere);
  return header->signer;
}

Result<std::shared_ptr<Pack>> Pack::open(const Path& path, const Trust& trust) {
  auto state = std::make_unique<State>();
  state->path = path.string();
  state->trust = trust;
  OPFORGE_ASSIGN(state->file, MappedFile::open(path));
  auto header = header_of(state->file);
  if (!header) return fail(state->named(std::move(header.error())));
  if (auto opened = state->open(*header); !opened)
    return fail(state->named(std::move(opened.error())));
  return std::shared_ptr<Pack>(new Pack(std::move(state)));
}

std::vector<std::string> Pack::operators() const {
  std::vector<std::string> names;
  names.reserve(state_->slots.size());
  for (const auto& slot : state_->slots) names.push_back(slot->name);
  return names;
}

Result<std::shared_ptr<const OperatorSection>> Pack::section(std::string_view op) {
  Slot* slot = state_->find(op);
  if (slot == nullptr)
    return fail(Code::kNotFound, fmt::format("pack '{}' has no operator '{}'", state_->path, op),
                kWhere);
  const std::lock_guard lock(slot->mutex);
  if (auto loaded = state_->load(*slot); !loaded)
    return fail(state_->named(std::move(loaded.error())));
  return slot->section;
}

Result<std::string> Pack::code(const Artifact& artifact) {
  Slot* slot = state_->find(artifact.variant.op);
  if (slot == nullptr)
    return fail(Code::kNotFound,
                fmt::format("pack '{}' has no operator '{}'", state_->path, artifact.variant.op),
                kWhere);
  BlobRef blob;
  {
    const std::lock_guard lock(slot->mutex);
    if (auto loaded = state_->load(*slot); !loaded)
      return fail(state_->named(std::move(loaded.error())));
    const auto found = slot->blobs.find(artifact.code_digest);
    if (found == slot->blobs.end())
      return fail(Code::kNotFound,
                  fmt::format("pack '{}' has no code {} ({})", state_->path,
                              artifact.code_digest.short_hex(), to_string(artifact.variant)),
                  kWhere);
    blob = found->second;
  }
  auto code = state_->code(blob);
  if (!code) {
    code.error().message =
        fmt::format("{} of {}", code.error().message, to_string(artifact.variant));
    return fail(state_->named(std::move(code.error())));
  }
  return code;
}

Status Pack::verify_all() {
  std::set<Digest> seen;
  for (const auto& slot : state_->slots) {
    OPFORGE_ASSIGN(const auto loaded, section(slot->name));
    for (const auto& artifact : loaded->artifacts)
      if (seen.insert(artifact.code_digest).second) OPFORGE_TRY(code(artifact));
    std::string wrong = slot->wrong_attestation;
    for (const auto& a : loaded->attestations)
      if (wrong.empty() && !attestation_signature_ok(a))
        wrong = fmt::format("attestation of {} on {} is not signed by {}, as it says", a.variant,
                            a.device_model, a.signer.empty() ? "anybody" : a.signer);
    if (!wrong.empty()) return fail(state_->named({Code::kUntrusted, std::move(wrong), kWhere}));
  }
  if (seen.size() != state_->info.blob_count)
    return fail(state_->named(
        {Code::kCorrupt,
         fmt::format("{} blobs, the root says {}", seen.size(), state_->info.blob_count), kWhere}));
  if (auto padding = state_->check_padding(); !padding)
    return fail(state_->named(std::move(padding.error())));
  return {};
}

Result<PackContents> read_pack(Pack& pack) {
  PackContents contents;
  contents.opforge_version = pack.info().opforge_version;
  std::set<Digest> seen;
  for (const auto& op : pack.operators()) {
    OPFORGE_ASSIGN(const auto section, pack.section(op));
    contents.sections.push_back(*section);
    for (const auto& artifact : section->artifacts) {
      if (!seen.insert(artifact.code_digest).second) continue;
      OPFORGE_ASSIGN(std::string code, pack.code(artifact));
      contents.codes.push_back({artifact.code_digest, std::move(code)});
    }
  }
  return contents;
}

}  // namespace opforge
