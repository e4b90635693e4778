#include "artifact/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "artifact/samples.hpp"
#include "base/log.hpp"

namespace opforge {
namespace {

using namespace samples;

class PackTest : public ::testing::Test {
 protected:
  Path write(const PackContents& contents, const SigningKey* key,
             const std::string& name = "a.ofpack") {
    auto written = write_pack(folder_ / name, contents, key);
    EXPECT_TRUE(written) << written.error().message;
    return folder_ / name;
  }
  std::shared_ptr<Pack> open(const Path& path) {
    auto pack = Pack::open(path, trusting(key_));
    EXPECT_TRUE(pack) << pack.error().message;
    return pack ? *pack : nullptr;
  }
  Folder folder_;
  const SigningKey key_ = SigningKey::generate();
};

TEST_F(PackTest, GivesBackEverything) {
  auto put = contents(3, 6);
  put.sections[1].attestations = {attestation(put.sections[1].artifacts[2], key_)};
  auto pack = open(write(put, &key_));
  ASSERT_TRUE(pack);
  EXPECT_EQ(pack->info().signer, key_.public_hex());
  EXPECT_EQ(pack->info().schema_version, kPackSchemaVersion);
  EXPECT_EQ(pack->info().blob_count, 15u);
  EXPECT_EQ(pack->info().file_bytes, std::filesystem::file_size(folder_ / "a.ofpack"));
  EXPECT_EQ(pack->operators(),
            (std::vector<std::string>{"group.op1000", "group.op1001", "group.op1002"}));
  ASSERT_EQ(pack->info().operators.size(), 3u);
  EXPECT_EQ(pack->info().operators[0].variants, 6u);
  EXPECT_TRUE(pack->verify_all());

  auto section = pack->section("group.op1001");
  ASSERT_TRUE(section) << section.error().message;
  const auto &got = **section, &want = put.sections[1];
  EXPECT_EQ(got.formula, want.formula);
  ASSERT_EQ(got.artifacts.size(), want.artifacts.size());
  for (std::size_t i = 0; i < want.artifacts.size(); ++i) {
    EXPECT_EQ(*manifest_to_json(got.artifacts[i]), *manifest_to_json(want.artifacts[i]));
    const auto code = pack->code(got.artifacts[i]);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(sha256(*code), want.artifacts[i].code_digest);
  }
  ASSERT_EQ(got.table.size(), want.table.size());
  EXPECT_EQ(got.table[0].dims, want.table[0].dims);
  EXPECT_EQ(got.table[0].attributes, want.table[0].attributes);
  EXPECT_EQ(got.table[0].dtypes, want.table[0].dtypes);
  EXPECT_EQ(got.table[0].layout, "contiguous/16");
  EXPECT_EQ(got.table[0].device_model, "NVIDIA H200");
  EXPECT_EQ(got.table[0].target, "sm_90a");
  EXPECT_EQ(got.table[0].median_us, 12.25);
  EXPECT_EQ(got.table[0].baseline_us, 13.0625);
  ASSERT_EQ(got.attestations.size(), 1u);
  EXPECT_EQ(attestation_message(got.attestations[0]), attestation_message(want.attestations[0]));
  EXPECT_TRUE(attestation_signature_ok(got.attestations[0]));

  const auto &a = got.signature, &b = want.signature;
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.tensors.size(), 3u);
  EXPECT_EQ(a.tensors[0].dims, b.tensors[0].dims);
  EXPECT_EQ(a.tensors[0].dtype, "T");
  EXPECT_TRUE(a.tensors[1].optional);
  EXPECT_EQ(a.tensors[2].access, Access::kWrite);
  EXPECT_EQ(a.tensors[2].may_alias, b.tensors[2].may_alias);
  ASSERT_EQ(a.attributes.size(), 2u);
  EXPECT_EQ(a.attributes[0].default_value, Value(1e-6));
  EXPECT_EQ(a.attributes[0].min, 0.1);
  EXPECT_FALSE(a.attributes[0].max);
  EXPECT_EQ(a.attributes[1].type, AttrType::kText);
  EXPECT_EQ(a.attributes[1].choices, b.attributes[1].choices);
  EXPECT_TRUE(a.attributes[1].baked);
  EXPECT_EQ(a.attributes[1].baked_values, b.attributes[1].baked_values);
  EXPECT_FALSE(a.attributes[1].default_value);
  EXPECT_EQ(a.dtypes, b.dtypes);
  EXPECT_EQ(a.reduced_dims, b.reduced_dims);
  EXPECT_EQ(a.default_contract, b.default_contract);
  EXPECT_EQ(a.backend_priority, b.backend_priority);
  EXPECT_EQ(a.deterministic_kernel, b.deterministic_kernel);
}

TEST_F(PackTest, SectionsAreLoadedOnceAndAbsentOnesNamed) {
  auto pack = open(write(contents(2, 2), &key_));
  EXPECT_EQ(pack->section("group.op1000")->get(), pack->section("group.op1000")->get());
  auto none = pack->section("group.op1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  Artifact stranger = artifact("group.op1000", 9, "other code");
  EXPECT_EQ(pack->code(stranger).error().code, Code::kNotFound);
}

TEST_F(PackTest, SixteenThreadsAtOnce) {
  auto pack = open(write(contents(4, 8), &key_));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 4; ++k) {
        auto section = pack->section("group.op" + std::to_string(1000 + (i + k) % 4));
        ASSERT_TRUE(section);
        for (const auto& a : (*section)->artifacts) EXPECT_TRUE(pack->code(a));
      }
    });
}

TEST_F(PackTest, SameContentsInAnyOrderGiveTheSameBytes) {
  auto first = contents(3, 8);
  for (auto& section : first.sections)
    for (int i = 0; i < 3; ++i)
      section.attestations.push_back(attestation(section.artifacts[i], key_));
  const auto bytes = pack_bytes(first, &key_);
  ASSERT_TRUE(bytes) << bytes.error().message;
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    auto other = first;
    std::shuffle(other.sections.begin(), other.sections.end(), random);
    std::shuffle(other.codes.begin(), other.codes.end(), random);
    for (auto& section : other.sections) {
      std::shuffle(section.artifacts.begin(), section.artifacts.end(), random);
      std::shuffle(section.table.begin(), section.table.end(), random);
      std::shuffle(section.attestations.begin(), section.attestations.end(), random);
      section.artifacts.push_back(section.artifacts[0]);  // exact duplicates are dropped
      section.attestations.push_back(section.attestations[0]);
      section.table.push_back(section.table[0]);
    }
    other.codes.push_back(other.codes[0]);
    const std::string unused = code_bytes("unused", 100, false);
    other.codes.push_back({sha256(unused), unused});
    EXPECT_TRUE(*pack_bytes(other, &key_) == *bytes);
  }
}

TEST_F(PackTest, ReadAndWrittenAgainIsTheSame) {
  auto pack = open(write(contents(2, 5), &key_));
  auto again = read_pack(*pack);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(*pack_bytes(*again, &key_) == *read_file(folder_ / "a.ofpack"));
}

TEST_F(PackTest, EmptyPack) {
  auto pack = open(write({}, &key_));
  EXPECT_TRUE(pack->operators().empty());
  EXPECT_TRUE(pack->verify_all());
}

TEST_F(PackTest, CompressesWhatShrinksAndStoresEqualCodeOnce) {
  PackContents put = contents(1, 1);
  const std::string zeros(1 << 20, 'z');
  put.sections[0].artifacts[0] = artifact("group.op1000", 0, zeros);
  put.codes = {{sha256(zeros), zeros}};
  const auto small = pack_bytes(put, nullptr);
  ASSERT_TRUE(small);
  EXPECT_LT(small->size(), 20'000u);
  for (int i = 1; i < 50; ++i)
    put.sections[0].artifacts.push_back(artifact("group.op1000", i, zeros));
  PackContents noise = put;
  const std::string random = code_bytes("noise", 1 << 20, false);
  noise.codes = {{sha256(random), random}};
  for (auto& a : noise.sections[0].artifacts) a.code_digest = sha256(random);
  const auto stored = pack_bytes(noise, &key_);
  ASSERT_TRUE(stored);
  EXPECT_LT(stored->size(), (1u << 20) + 60'000u);  // once, and 50 records
  auto pack = open(write(noise, &key_));
  EXPECT_EQ(*pack->code((*pack->section("group.op1000"))->artifacts[49]), random);
}

TEST_F(PackTest, WriterRefusesContradictions) {
  const auto code_of = [&](const PackContents& c) { return pack_bytes(c, &key_).error(); };
  auto twice = contents(1, 2);
  twice.sections.push_back(twice.sections[0]);
  EXPECT_EQ(code_of(twice).code, Code::kInvalidArgument);
  auto clash = contents(1, 2);
  clash.sections[0].artifacts.push_back(clash.sections[0].artifacts[0]);
  clash.sections[0].artifacts.back().code_key = digest_of("edited source");
  EXPECT_NE(code_of(clash).message.find("is there twice"), std::string::npos);
  auto missing = contents(1, 2);
  missing.codes.pop_back();
  EXPECT_NE(code_of(missing).message.find("missing"), std::string::npos);
  auto wrong = contents(1, 2);
  wrong.codes[0].bytes[0] ^= 1;
  EXPECT_EQ(code_of(wrong).code, Code::kInvalidArgument);
  auto stray = contents(1, 2);
  stray.sections[0].artifacts[0].variant.op = "group.other";
  EXPECT_EQ(code_of(stray).code, Code::kInvalidArgument);
  auto forged = contents(1, 2);
  forged.sections[0].attestations = {attestation(forged.sections[0].artifacts[0], key_)};
  forged.sections[0].attestations[0].tier = Tier::kDeterministic;
  EXPECT_EQ(code_of(forged).code, Code::kUntrusted);
}

TEST_F(PackTest, UnsignedOnlyWhenAllowedByName) {
  const Path path = write(contents(1, 2), nullptr);
  auto refused = Pack::open(path, trusting(key_));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUntrusted);
  EXPECT_NE(refused.error().message.find("opforge pack sign"), std::string::npos);
  Trust trust;
  trust.allow_unsigned = true;
  auto pack = Pack::open(path, trust);
  ASSERT_TRUE(pack) << pack.error().message;
  EXPECT_EQ((*pack)->info().signer, "");
  EXPECT_TRUE((*pack)->verify_all());
}

TEST_F(PackTest, UnknownSignerIsRefusedWithWhatToDo) {
  const auto stranger = SigningKey::generate();
  const Path path = write(contents(1, 2), &stranger);
  Trust trust = trusting(key_);
  trust.allow_unsigned = true;  // does not help a signed pack
  auto pack = Pack::open(path, trust);
  ASSERT_FALSE(pack);
  EXPECT_EQ(pack.error().code, Code::kUntrusted);
  EXPECT_NE(pack.error().message.find("opforge trust add " + stranger.public_hex()),
            std::string::npos)
      << pack.error().message;
}

// Somebody changes the contents and signs with a key of their own, or keeps the trusted key's name
// over a wrong signature.
TEST_F(PackTest, ResignedPacks) {
  const auto thief = SigningKey::generate();
  auto contents_ = contents(1, 2);
  contents_.sections[0].formula = "y = 0";
  const std::string theirs = *pack_bytes(contents_, &thief);
  write_bytes(folder_ / "thief", theirs);
  EXPECT_EQ(Pack::open(folder_ / "thief", trusting(key_)).error().code, Code::kUntrusted);
  std::string named = theirs;
  const std::string ours = *pack_bytes(contents(1, 2), &key_);
  named.replace(72, 32, ours.substr(72, 32));  // our public key over their signature
  write_bytes(folder_ / "named", named);
  auto altered = Pack::open(folder_ / "named", trusting(key_));
  ASSERT_FALSE(altered);
  EXPECT_EQ(altered.error().code, Code::kUntrusted);
  EXPECT_NE(altered.error().message.find("altered"), std::string::npos);
  named.replace(104, 64, ours.substr(104, 64));  // and our signature, which is of another root
  write_bytes(folder_ / "named", named);
  Trust trust = trusting(key_);
  trust.allow_unsigned = true;
  EXPECT_EQ(Pack::open(folder_ / "named", trust).error().code, Code::kUntrusted);
  std::string stripped = ours;
  stripped.replace(72, 96, 96,
                   '\0');  // the signature taken away: an unsigned pack, refused unless allowed
  write_bytes(folder_ / "stripped", stripped);
  EXPECT_EQ(Pack::open(folder_ / "stripped", trusting(key_)).error().code, Code::kUntrusted);
  EXPECT_TRUE(Pack::open(folder_ / "stripped", trust));
}

TEST_F(PackTest, MissingForeignAndOtherSchema) {
  EXPECT_EQ(Pack::open(folder_ / "nothing", {}).error().code, Code::kNotFound);
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(5000, '\0'),
                                   std::string("\x7f"
                                               "ELF") +
                                       std::string(5000, 'a'),
                                   std::string("PK\x03\x04") + std::string(400, 'z')}) {
    write_bytes(folder_ / "foreign", bytes);
    auto pack = Pack::open(folder_ / "foreign", {});
    ASSERT_FALSE(pack);
    EXPECT_EQ(pack.error().code, Code::kCorrupt);
    EXPECT_NE(pack.error().message.find("not an opforge pack"), std::string::npos)
        << pack.error().message;
  }
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_EQ(Pack::open(folder_ / "folder", {}).error().code, Code::kIo);
  std::string older = *pack_bytes(contents(1, 1), &key_);
  older[8] = 0;  // schema version 0
  older.replace(168, 5, "0.0.9");
  write_bytes(folder_ / "older", older);
  auto pack = Pack::open(folder_ / "older", trusting(key_));
  ASSERT_FALSE(pack);
  EXPECT_EQ(pack.error().code, Code::kIncompatible);
  for (const char* word : {"opforge 0.0.9 with schema 0", "schema 1"})
    EXPECT_NE(pack.error().message.find(word), std::string::npos) << pack.error().message;
}

// A local suffix of the version is no reason to refuse: only the schema counts.
TEST_F(PackTest, VersionSuffixIsAccepted) {
  auto put = contents(1, 1);
  put.opforge_version = "0.1.0+cu130";
  EXPECT_EQ(open(write(put, &key_))->info().opforge_version, "0.1.0+cu130");
}

TEST_F(PackTest, WriteErrorsNameTheReason) {
  auto nowhere = write_pack(folder_ / "no/such/folder.ofpack", contents(1, 1), &key_);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::kIo);
  std::filesystem::create_directory(folder_ / "ro");
  write_bytes(folder_ / "ro/old.ofpack", "old");
  chmod((folder_ / "ro").c_str(), 0555);
  EXPECT_EQ(as_unprivileged([&] {
              auto written = write_pack(folder_ / "ro/old.ofpack", contents(1, 1), &key_);
              return !written && written.error().code == Code::kIo &&
                             *read_file(folder_ / "ro/old.ofpack") == "old"
                         ? 0
                         : 1;
            }),
            0);
}

TEST_F(PackTest, FullDiskKeepsTheOldPack) {
  SmallDisk disk(folder_ / "disk", 64);
  if (!disk.mounted()) GTEST_SKIP() << "full disk: mounting a tmpfs is not allowed here";
  ASSERT_TRUE(write_pack(disk.path() / "p.ofpack", contents(1, 1), &key_));
  const std::string before = *read_file(disk.path() / "p.ofpack");
  auto written = write_pack(disk.path() / "p.ofpack", contents(4, 20), &key_);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kIo);
  EXPECT_NE(written.error().message.find("No space left"), std::string::npos)
      << written.error().message;
  EXPECT_TRUE(*read_file(disk.path() / "p.ofpack") == before);
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(disk.path()))
    ++files;
  EXPECT_EQ(files, 1);
}

TEST_F(PackTest, ReadOnlyFileSystem) {
  SmallDisk disk(folder_ / "disk", 4096);
  if (!disk.mounted()) GTEST_SKIP() << "read-only disk: mounting a tmpfs is not allowed here";
  ASSERT_TRUE(write_pack(disk.path() / "p.ofpack", contents(1, 3), &key_));
  ASSERT_TRUE(disk.make_read_only());
  EXPECT_TRUE(open(disk.path() / "p.ofpack")->verify_all());
  EXPECT_EQ(write_pack(disk.path() / "p.ofpack", contents(1, 1), &key_).error().code, Code::kIo);
}

class AttestationTest : public PackTest {
 protected:
  AttestationTest() {
    set_log_sink([this](LogLevel, std::string_view, std::string_view m) { log_ += m; },
                 LogLevel::kWarning);
  }
  ~AttestationTest() override { set_log_sink({}); }
  std::string log_;
};

TEST_F(AttestationTest, FileKeepsEveryBit) {
  const auto pack = contents(1, 4);
  std::vector<Attestation> put;
  for (const auto& a : pack.sections[0].artifacts) put.push_back(attestation(a, key_));
  put[1].worst_error_over_bound = std::numeric_limits<double>::infinity();
  put[1].passed = false;
  put[2].device_model = "a \"quoted\" name\n\xc3\xbc";
  put[3].driver_version = 13000;
  for (auto& a : put) sign_attestation(a, key_);
  ASSERT_TRUE(write_attestations(folder_ / "f.attest", put));
  auto got = read_attestations(folder_ / "f.attest");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), 4u);
  for (std::size_t i = 0; i < put.size(); ++i) {
    EXPECT_EQ(attestation_message((*got)[i]), attestation_message(put[i]));
    EXPECT_TRUE(attestation_signature_ok((*got)[i]));
  }
}

TEST_F(AttestationTest, EveryFieldIsSigned) {
  const auto good = attestation(contents(1, 1).sections[0].artifacts[0], key_);
  const std::vector<std::function<void(Attestation&)>> changes = {
      [](Attestation& a) { a.code_digest = digest_of("x"); },
      [](Attestation& a) { a.proof_key = digest_of("x"); },
      [](Attestation& a) { a.op += "x"; },
      [](Attestation& a) { a.variant += "x"; },
      [](Attestation& a) { a.device_model += "x"; },
      [](Attestation& a) { a.driver_version = 1; },
      [](Attestation& a) { a.tier = Tier::kDeterministic; },
      [](Attestation& a) { a.passed = false; },
      [](Attestation& a) {
        a.worst_error_over_bound = std::nextafter(a.worst_error_over_bound, 0);
      },
      [](Attestation& a) { a.cases += 1; },
      [](Attestation& a) { a.suite_version += "x"; },
      [](Attestation& a) { a.date += "x"; },
      [](Attestation& a) { a.signer = SigningKey::generate().public_hex(); },
      [](Attestation& a) { a.signature[0] = a.signature[0] == '0' ? '1' : '0'; },
      [](Attestation& a) { std::swap(a.op, a.variant); }};
  ASSERT_TRUE(attestation_signature_ok(good));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    auto changed = good;
    changes[i](changed);
    EXPECT_FALSE(attestation_signature_ok(changed)) << i;
  }
}

TEST_F(AttestationTest, BadFilesAreCorrupt) {
  for (const char* text : {"", "{}", "[1]", "[{}]", "[", "null", R"([{"op": 3}])"}) {
    write_bytes(folder_ / "bad", text);
    auto got = read_attestations(folder_ / "bad");
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, Code::kCorrupt);
  }
  EXPECT_EQ(read_attestations(folder_ / "none").error().code, Code::kNotFound);
  EXPECT_FALSE(attestations_from_json(std::string(1'000'000, '[')));
}

// Made elsewhere, merged later: the code is not touched, and asking twice changes nothing.
TEST_F(AttestationTest, MergeNeedsTrustAndKeepsTheCode) {
  const auto machine = SigningKey::generate();
  const Path path = write(contents(2, 4), &key_);
  auto merged = *read_pack(*open(path));
  const auto before = merged.codes;
  std::vector<Attestation> made;
  for (const auto& a : merged.sections[1].artifacts) made.push_back(attestation(a, machine));
  made.push_back(attestation(artifact("group.elsewhere", 1, "other"), machine));  // left out
  auto refused = merge_attestations(merged, made, trusting(key_));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUntrusted);
  EXPECT_NE(refused.error().message.find("opforge trust add " + machine.public_hex()),
            std::string::npos);
  Trust trust = trusting(key_);
  trust.keys.insert(machine.public_hex());
  auto added = merge_attestations(merged, made, trust);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(*added, 4u);
  for (auto& a : made) {
    a.date = "2026-01-01T00:00:00Z";
    sign_attestation(a, machine);
  }
  EXPECT_EQ(*merge_attestations(merged, made, trust), 0u);
  made[0].cases = 1;
  EXPECT_EQ(merge_attestations(merged, made, trust).error().code, Code::kUntrusted);

  auto after = *read_pack(*open(write(merged, &key_, "b.ofpack")));
  ASSERT_EQ(after.codes.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(after.codes[i].bytes == before[i].bytes);
  EXPECT_EQ(after.sections[1].attestations.size(), 4u);
  EXPECT_TRUE(after.sections[0].attestations.empty());
  // The builder answers for what it merged: a process that trusts only the builder sees them.
  EXPECT_EQ((*open(folder_ / "b.ofpack")->section("group.op1001"))->attestations.size(), 4u);
}

TEST_F(AttestationTest, OfOtherCodeAreNotFound) {
  auto put = contents(1, 2);
  const std::vector<Attestation> made{
      attestation(artifact("group.op1000", 7, "built again"), key_)};
  EXPECT_EQ(merge_attestations(put, made, trusting(key_)).error().code, Code::kNotFound);
}

TEST_F(AttestationTest, OfUnsignedPacksAreUsedOnlyByTrustedKeys) {
  const auto stranger = SigningKey::generate();
  auto put = contents(1, 2);
  put.sections[0].attestations = {attestation(put.sections[0].artifacts[0], key_),
                                  attestation(put.sections[0].artifacts[1], stranger)};
  const Path path = write(put, nullptr);
  Trust trust = trusting(key_);
  trust.allow_unsigned = true;
  auto pack = Pack::open(path, trust);
  ASSERT_TRUE(pack);
  auto section = (*pack)->section("group.op1000");
  ASSERT_TRUE(section);
  ASSERT_EQ((*section)->attestations.size(), 1u);
  EXPECT_EQ((*section)->attestations[0].signer, key_.public_hex());
  EXPECT_NE(log_.find("is not used: its signer is not trusted"), std::string::npos) << log_;
}

}  // namespace
}  // namespace opforge
