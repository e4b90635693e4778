// JSON forms of manifests and launch records: FlatBuffers' own, of the schema that packs use.
#include <flatbuffers/idl.h>
#include <fmt/format.h>

#include "artifact/convert.hpp"
#include "artifact/pack.hpp"
#include "artifact/schema/schema_text.hpp"
#include "artifact/store.hpp"

namespace opforge {
namespace {

constexpr std::uint64_t kJsonBudget = 64ull << 20;
constexpr std::size_t kMaxJsonBytes = 16u << 20;

// A parser that knows the schema; `root` is the table that the text holds. One for each thread,
// since parsing the schema costs more than parsing a manifest.
Result<flatbuffers::Parser*> parser_for(const char* root) {
  thread_local flatbuffers::Parser parser = [] {
    flatbuffers::IDLOptions options;
    options.strict_json = true;
    options.output_default_scalars_in_json = true;
    return flatbuffers::Parser(options);
  }();
  thread_local const bool parsed = parser.Parse(kSchemaText);
  if (!parsed)
    return fail(Code::kInternal, fmt::format("schema: {}", parser.error_), "artifact/json");
  if (!parser.SetRootType(root))
    return fail(Code::kInternal, fmt::format("schema has no table {}", root), "artifact/json");
  parser.file_identifier_.clear();
  return &parser;
}

template <class Table, class Read>
auto from_json(std::string_view json, const char* root, const char* what, Read read)
    -> Result<decltype(read(std::declval<FlatReader&>(), std::declval<const Table*>()))> {
  if (json.size() > kMaxJsonBytes || json.find('\0') != std::string_view::npos)
    return fail(Code::kCorrupt, fmt::format("{}: not JSON text of at most 16 MiB", what),
                "artifact/json");
  OPFORGE_ASSIGN(flatbuffers::Parser * parser, parser_for(root));
  const std::string text(json);
  if (!parser->ParseJson(text.c_str()))
    return fail(Code::kCorrupt, fmt::format("{}: {}", what, parser->error_), "artifact/json");
  const auto* bytes = parser->builder_.GetBufferPointer();
  flatbuffers::Verifier verifier(bytes, parser->builder_.GetSize(), kFlatMaxDepth, kFlatMaxTables);
  if (!verifier.VerifyBuffer<Table>(nullptr))
    return fail(Code::kCorrupt, fmt::format("{}: malformed", what), "artifact/json");
  FlatReader reader(kJsonBudget);
  auto value = read(reader, flatbuffers::GetRoot<Table>(bytes));
  if (auto status = reader.status(); !status)
    return fail(status.error().code, fmt::format("{}: {}", what, status.error().message),
                "artifact/json");
  return value;
}

template <class Write>
Result<std::string> to_json(const char* root, const char* what, Write write) {
  OPFORGE_ASSIGN(flatbuffers::Parser * parser, parser_for(root));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(write(builder));
  std::string text;
  if (!flatbuffers::GenerateText(*parser, builder.GetBufferPointer(), &text))
    return fail(Code::kInvalidArgument, fmt::format("{}: a text in it is not UTF-8", what),
                "artifact/json");
  return text;
}

}  // namespace

Result<std::string> manifest_to_json(const Artifact& artifact) {
  const auto digest = sha256(artifact_bytes(artifact)).hex();
  return to_json("opforge.fb.Manifest", "manifest", [&](flatbuffers::FlatBufferBuilder& builder) {
    const auto stored = FlatWriter(builder).artifact(artifact);
    return fb::CreateManifest(builder, kPackSchemaVersion, builder.CreateString(digest), stored);
  });
}

Result<Artifact> manifest_from_json(std::string_view json) {
  struct Manifest {
    int schema_version;
    Digest digest;
    Artifact artifact;
  };
  OPFORGE_ASSIGN(auto manifest,
                 (from_json<fb::Manifest>(json, "opforge.fb.Manifest", "manifest",
                                          [](FlatReader& reader, const fb::Manifest* m) {
                                            return Manifest{
                                                m->schema_version(),
                                                reader.digest(m->digest(), "the manifest's digest"),
                                                reader.artifact(m->artifact())};
                                          })));
  if (manifest.schema_version != kPackSchemaVersion)
    return fail(
        Code::kIncompatible,
        fmt::format("manifest of schema {}, this opforge reads {}: build the artifact again",
                    manifest.schema_version, kPackSchemaVersion),
        "artifact/json");
  const auto digest = sha256(artifact_bytes(manifest.artifact));
  if (digest != manifest.digest)
    return fail(Code::kCorrupt,
                fmt::format("manifest: contents have digest {}, it says {}", digest.short_hex(),
                            manifest.digest.short_hex()),
                "artifact/json");
  return std::move(manifest.artifact);
}

Result<std::string> launch_to_json(const LaunchRecord& record) {
  return to_json(
      "opforge.fb.LaunchRecord", "launch record",
      [&](flatbuffers::FlatBufferBuilder& builder) { return FlatWriter(builder).launch(record); });
}

Result<LaunchRecord> launch_from_json(std::string_view json) {
  return from_json<fb::LaunchRecord>(
      json, "opforge.fb.LaunchRecord", "launch record",
      [](FlatReader& reader, const fb::LaunchRecord* record) { return reader.launch(record); });
}

}  // namespace opforge
