// Packs. The first byte says what the rest is: a whole file, a root whose digest is made right, or
// a section whose digests are, so that the readers behind the digests are reached.
#include "artifact/reseal.hpp"
#include "fuzz/fuzz.hpp"

using namespace opforge;

namespace {

constexpr char kFile = 'f', kRoot = 'r', kSection = 's';

const std::string& good_pack() {
  static const std::string bytes = *pack_bytes(samples::contents(2, 2, 300), nullptr);
  return bytes;
}

std::string file_of(std::string_view root, std::string_view before_root) {
  PackHeader header;
  header.schema_version = kPackSchemaVersion;
  header.opforge_version =
      (*decode_header(std::string_view(good_pack()).substr(0, kPackHeaderBytes))).opforge_version;
  header.root_offset = before_root.size();
  header.root_bytes = root.size();
  header.file_bytes = before_root.size() + root.size();
  header.root_digest = sha256(root);
  return encode_header(header) + std::string(before_root.substr(kPackHeaderBytes)) +
         std::string(root);
}

std::string with_section(std::string_view section) {
  const auto good = samples::root_of(good_pack());
  const auto* root = flatbuffers::GetRoot<fb::Root>(good_pack().data() + good.offset);
  const auto blobs = samples::blobs_of(good_pack());
  std::string body(kPackHeaderBytes, '\0');
  body += section;
  const std::size_t blob_offset = body.size();
  body += good_pack().substr(blobs.offset, blobs.size);
  flatbuffers::FlatBufferBuilder builder;
  const auto name = builder.CreateString("group.op1000");
  const auto digest = builder.CreateString(sha256(section).hex());
  const std::vector refs{
      fb::CreateSectionRef(builder, name, kPackHeaderBytes, section.size(), digest, 2)};
  const auto version = builder.CreateString(root->opforge_version()->str());
  const auto list = builder.CreateVector(refs);
  builder.Finish(
      fb::CreateRoot(builder, kPackSchemaVersion, version, list, blob_offset, blobs.size, 2),
      fb::RootIdentifier());
  return file_of({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()},
                 body);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const auto& good = good_pack();
  const auto root = samples::root_of(good), section = samples::section_of(good, 0);
  return {kFile + good, kRoot + good.substr(root.offset, root.size),
          kSection + good.substr(section.offset, section.size)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static samples::Folder folder;
  if (size == 0 || size > (1u << 20)) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string file(rest);
  if (data[0] == kRoot)
    file = file_of(rest,
                   std::string_view(good_pack()).substr(0, samples::root_of(good_pack()).offset));
  if (data[0] == kSection) file = with_section(rest);
  samples::write_bytes(folder / "p", file);
  Trust trust;
  trust.allow_unsigned = true;
  auto pack = Pack::open(folder / "p", trust);
  if (!pack) {
    FUZZ_CHECK(!pack.error().message.empty());
    return 0;
  }
  (void)(*pack)->verify_all();
  if (auto contents = read_pack(**pack)) (void)pack_bytes(std::move(*contents), nullptr);
  return 0;
}
