// The only place where C++ structs and FlatBuffers meet. Internal to the artifact layer.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "artifact/schema/artifact_generated.h"

namespace opforge {

// Where the code with this digest lies in a pack; `offset` counts from the start of the blob area.
struct BlobRef {
  Digest digest;
  std::uint64_t offset = 0, stored_bytes = 0, size_bytes = 0;
  bool zstd = false;
};

// C++ -> FlatBuffers. Equal strings and equal launch records, defaults, ... are stored once: the
// many variants of one kernel share them. The same structs give the same bytes.
class FlatWriter {
 public:
  template <class T>
  using Offset = flatbuffers::Offset<T>;
  template <class T>
  using Vector = Offset<flatbuffers::Vector<T>>;

  explicit FlatWriter(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}
  Offset<fb::LaunchRecord> launch(const LaunchRecord& record);
  Offset<fb::Artifact> artifact(const Artifact& artifact);
  Offset<fb::Signature> signature(const Signature& signature);
  Offset<fb::Section> section(const OperatorSection& section, std::span<const BlobRef> blobs);

 private:
  Offset<flatbuffers::String> text(std::string_view value);
  Vector<Offset<flatbuffers::String>> texts(std::span<const std::string> values);
  Vector<Offset<flatbuffers::String>> triple(std::span<const std::string, 3> values);
  template <class T, class Items, class Make>
  Vector<Offset<T>> list(const Items& items, Make make);
  template <class Make>
  auto shared(char kind, Make make) -> decltype(make(*this));
  Offset<fb::Value> value(const Value& value);
  Vector<Offset<fb::NamedValue>> values(const ValueMap& values);
  Vector<Offset<fb::NamedDType>> dtypes(const DTypeCombo& combo);
  Offset<fb::TensorMap> tensor_map(const TensorMapSpec& spec);
  Offset<fb::Binding> binding(const Binding& binding);
  Offset<fb::LaunchStep> step(const LaunchStep& step);
  Offset<fb::Variant> variant(const Variant& variant);
  Offset<fb::TensorArg> tensor_arg(const TensorArg& arg);
  Offset<fb::AttrArg> attr_arg(const AttrArg& arg);
  Offset<fb::TableEntry> table_entry(const TableEntry& entry);
  Offset<fb::Attestation> attestation(const Attestation& attestation);

  flatbuffers::FlatBufferBuilder& builder_;
  std::map<std::string, flatbuffers::uoffset_t> shared_;
};

// FlatBuffers -> C++, of a buffer that passed the Verifier. Enumerators, dtypes, digests and
// numbers are checked here. The first problem sticks: the rest comes out empty and status() tells
// it. Since stored tables may be shared, a small buffer could unfold into a huge one:
// `budget_bytes` bounds what is copied out.
class FlatReader {
 public:
  explicit FlatReader(std::uint64_t budget_bytes) : budget_(budget_bytes) {}
  LaunchRecord launch(const fb::LaunchRecord* record);
  Artifact artifact(const fb::Artifact* artifact);
  Signature signature(const fb::Signature* signature);
  OperatorSection section(const fb::Section* section);
  BlobRef blob(const fb::Blob* blob);
  Digest digest(const flatbuffers::String* hex, const char* what);
  std::string text(const flatbuffers::String* value);
  bool ok() const { return error_.empty(); }
  Status status() const;  // kCorrupt with the first problem

 private:
  void problem(std::string message);
  bool charge(std::uint64_t bytes);
  template <class T, class Items, class Make>
  std::vector<T> list(const Items* items, Make make);
  std::vector<std::string> texts(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values);
  std::array<std::string, 3> triple(
      const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values);
  template <class To, class From>
  To enumerator(From value, const char* what);
  DType dtype(const flatbuffers::String* name);
  Value value(const fb::Value* value);
  ValueMap values(const flatbuffers::Vector<flatbuffers::Offset<fb::NamedValue>>* values);
  DTypeCombo dtypes(const flatbuffers::Vector<flatbuffers::Offset<fb::NamedDType>>* combo);
  TensorMapSpec tensor_map(const fb::TensorMap* spec);
  Binding binding(const fb::Binding* binding);
  LaunchStep step(const fb::LaunchStep* step);
  Variant variant(const fb::Variant* variant);
  Precondition precondition(const fb::Precondition* precondition);
  TensorArg tensor_arg(const fb::TensorArg* arg);
  AttrArg attr_arg(const fb::AttrArg* arg);
  TableEntry table_entry(const fb::TableEntry* entry);
  Attestation attestation(const fb::Attestation* attestation);

  std::uint64_t budget_;
  std::string error_;
};

// Bounds for the Verifier: no schema table nests deeper, and a section of a large operator stays
// far below the count.
inline constexpr flatbuffers::uoffset_t kFlatMaxDepth = 16;
inline constexpr flatbuffers::uoffset_t kFlatMaxTables = 4'000'000;

// Verified and converted whole, from and to bytes whose root table is T.
std::string artifact_bytes(
    const Artifact& artifact);  // the canonical binary form that manifests hash

}  // namespace opforge
