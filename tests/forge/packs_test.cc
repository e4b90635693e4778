#include "forge/packs.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "artifact/samples.hpp"

namespace opforge {
namespace {

using namespace samples;

class PacksTest : public ::testing::Test {
 protected:
  PacksTest() : trust_(trusting(key_)) {}
  Path put(const std::string& name, const PackContents& contents, const SigningKey* key) {
    auto written = write_pack(folder_ / name, contents, key);
    EXPECT_TRUE(written) << written.error().message;
    return folder_ / name;
  }
  std::vector<Attestation> attest_all(const OperatorSection& section, const SigningKey& key) {
    std::vector<Attestation> out;
    for (const auto& a : section.artifacts) out.push_back(attestation(a, key));
    return out;
  }
  PackContents read(const Path& path) { return *read_pack(**Pack::open(path, trust_)); }
  Folder folder_;
  const SigningKey key_ = SigningKey::generate(), machine_ = SigningKey::generate();
  Trust trust_;
};

TEST_F(PacksTest, InspectShowsWhatIsInIt) {
  auto contents_ = contents(2, 4, 1000);
  contents_.sections[0].attestations = attest_all(contents_.sections[0], key_);
  contents_.sections[0].attestations[1].passed = false;
  sign_attestation(contents_.sections[0].attestations[1], key_);
  auto report = inspect_pack(put("a", contents_, &key_), trust_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->trusted);
  EXPECT_EQ(report->info.signer, key_.public_hex());
  ASSERT_EQ(report->operators.size(), 2u);
  const auto& op = report->operators[0];
  EXPECT_EQ(op.name, "group.op1000");
  EXPECT_EQ(op.default_contract, "HIGH_PRECISION");
  EXPECT_EQ(op.backends, std::set<std::string>{"cuda"});
  EXPECT_EQ(op.targets, std::set<std::string>{"sm_90a"});
  EXPECT_EQ(op.tiers, (std::set<std::string>{"HIGH_PRECISION", "DETERMINISTIC"}));
  EXPECT_EQ(op.dtypes, std::set<std::string>{"T=bf16,W=f32"});
  EXPECT_EQ(op.measured_on, std::set<std::string>{"NVIDIA H200"});
  EXPECT_EQ(op.table_entries, 4u);
  EXPECT_EQ(op.code_bytes, 3000u);  // the fourth variant shares the code of the third
  ASSERT_EQ(op.variants.size(), 4u);
  EXPECT_EQ(op.variants[0].code_kind, "cubin");
  EXPECT_EQ(op.variants[0].toolchain, "nvrtc 13.0");
  EXPECT_EQ(op.variants[0].code_bytes, 1000u);
  EXPECT_EQ(op.variants[0].proved.at("NVIDIA H200"), Tier::kHighPrecision);
  EXPECT_TRUE(op.variants[1].proved.empty());  // it failed
  EXPECT_EQ(report->unproved, 5u);
  ASSERT_EQ(report->attestations.size(), 1u);
  EXPECT_EQ(report->attestations[0].passed, 3u);
  EXPECT_EQ(report->attestations[0].failed, 1u);
  EXPECT_TRUE(report->attestations[0].signer_trusted);
  const auto json = nlohmann::json::parse(pack_report_to_json(*report));
  EXPECT_EQ(json["operators"][0]["variants"].size(), 4u);
  EXPECT_EQ(json["operators"][0]["variants"][0]["proved"]["NVIDIA H200"], "HIGH_PRECISION");
}

// A user must be able to look before trusting.
TEST_F(PacksTest, InspectWorksOnUntrustedAndUnsignedPacksButNotOnDamagedOnes) {
  const Path theirs = put("theirs", contents(1, 2), &machine_);
  auto report = inspect_pack(theirs, trust_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->trusted);
  EXPECT_NE(report->trust_note.find("opforge trust add " + machine_.public_hex()),
            std::string::npos);
  report = inspect_pack(put("unsigned", contents(1, 2), nullptr), trust_);
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->trusted);
  std::string bytes = *read_file(theirs);
  bytes[bytes.size() - 20] ^= 1;
  write_bytes(theirs, bytes);
  EXPECT_EQ(inspect_pack(theirs, trust_).error().code, Code::kCorrupt);
}

TEST_F(PacksTest, VerifyCounts) {
  auto put_ = contents(2, 4);
  put_.sections[1].attestations = attest_all(put_.sections[1], key_);
  const Path path = put("a", put_, &key_);
  auto check = verify_pack(path, trust_);
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->sections, 2u);
  EXPECT_EQ(check->blobs, 6u);
  EXPECT_EQ(check->attestations, 4u);
  EXPECT_EQ(verify_pack(path, {}).error().code, Code::kUntrusted);
  std::string bytes = *read_file(path);
  bytes[5000] ^= 1;
  write_bytes(path, bytes);
  EXPECT_EQ(verify_pack(path, trust_).error().code, Code::kCorrupt);
}

TEST_F(PacksTest, AttestOnlyByTrustedKeysInPlaceWithoutTouchingTheCode) {
  const Path pack = put("a", contents(2, 4), &key_);
  const auto before = read(pack);
  ASSERT_TRUE(write_attestations(folder_ / "f.attest", attest_all(before.sections[0], machine_)));
  const std::string untouched = *read_file(pack);
  auto refused = attest_pack(pack, {folder_ / "f.attest"}, pack, trust_, key_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUntrusted);
  EXPECT_TRUE(*read_file(pack) == untouched);
  trust_.keys.insert(machine_.public_hex());
  auto done = attest_pack(pack, {folder_ / "f.attest"}, pack, trust_, key_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->added, 4u);
  EXPECT_EQ(done->known, 0u);
  const auto after = read(pack);
  EXPECT_EQ(after.sections[0].attestations.size(), 4u);
  ASSERT_EQ(after.codes.size(), before.codes.size());
  for (std::size_t i = 0; i < after.codes.size(); ++i)
    EXPECT_TRUE(after.codes[i].bytes == before.codes[i].bytes);
  const std::string attested = *read_file(pack);
  done = attest_pack(pack, {folder_ / "f.attest"}, pack, trust_, key_);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->added, 0u);
  EXPECT_TRUE(*read_file(pack) == attested);
}

TEST_F(PacksTest, SignMakesOnesOwn) {
  const auto original = contents(1, 3);
  const Path unsigned_pack = put("u", original, nullptr);
  ASSERT_TRUE(sign_pack(unsigned_pack, folder_ / "s", trust_, key_));
  EXPECT_TRUE(*read_file(folder_ / "s") == *pack_bytes(original, &key_));
  const Path theirs = put("t", original, &machine_);
  EXPECT_EQ(sign_pack(theirs, folder_ / "x", trust_, key_).error().code, Code::kUntrusted);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  trust_.keys.insert(machine_.public_hex());
  ASSERT_TRUE(sign_pack(theirs, theirs, trust_, key_));
  EXPECT_EQ(*pack_signer(theirs), key_.public_hex());
}

TEST_F(PacksTest, MergeIsTheUnionInAnyOrder) {
  auto all = contents(3, 4);
  PackContents first = all, second = all;
  first.sections = {all.sections[0], all.sections[1]};
  first.sections[1].artifacts.resize(2);
  first.sections[1].table.resize(2);
  second.sections = {all.sections[1], all.sections[2]};
  second.sections[0].artifacts.erase(second.sections[0].artifacts.begin());
  second.sections[0].table.erase(second.sections[0].table.begin());
  const Path a = put("a", first, &key_), b = put("b", second, &key_);
  auto merged = merge_packs({a, b}, folder_ / "ab", trust_, key_);
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(merged->operators, 3u);
  EXPECT_EQ(merged->variants, 12u);
  EXPECT_EQ(merged->same, 1u);
  ASSERT_TRUE(merge_packs({b, a}, folder_ / "ba", trust_, key_));
  EXPECT_TRUE(*read_file(folder_ / "ab") == *read_file(folder_ / "ba"));
  EXPECT_TRUE(*read_file(folder_ / "ab") == *pack_bytes(all, &key_));
}

TEST_F(PacksTest, MergeTakesTheFasterChoiceAndNamesConflicts) {
  auto first = contents(1, 2), second = first;
  second.sections[0].table[0].median_us = 5;
  second.sections[0].table[0].code_key = second.sections[0].artifacts[1].code_key;
  second.sections[0].table[1].median_us = 50;
  const Path a = put("a", first, &key_), b = put("b", second, &key_);
  ASSERT_TRUE(merge_packs({a, b}, folder_ / "ab", trust_, key_));
  const auto merged = read(folder_ / "ab");
  ASSERT_EQ(merged.sections[0].table.size(), 2u);
  double sum = 0;
  for (const auto& entry : merged.sections[0].table) sum += entry.median_us;
  EXPECT_EQ(sum, 5 + 12.25);

  second.sections[0].artifacts[0].code_key = digest_of("edited");
  const Path c = put("c", second, &key_);
  auto conflict = merge_packs({a, c}, folder_ / "x", trust_, key_);
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  auto taken = merge_packs({a, c}, folder_ / "ac", trust_, key_, MergeConflict::kTakeFirst);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->left_out, 1u);
  second.sections[0].signature.reduced_dims = {"M"};
  const Path d = put("d", second, &key_);
  EXPECT_NE(
      merge_packs({a, d}, folder_ / "x", trust_, key_).error().message.find("declared differently"),
      std::string::npos);
}

// Two targets merged: each keeps its own choices; take one away and nothing of it is left.
TEST_F(PacksTest, MergedTargetsStayApart) {
  auto first = contents(1, 2), second = first;
  for (auto& a : second.sections[0].artifacts) {
    a.variant.target = "sm_80";
    a.code_key = digest_of("sm_80" + a.code_key.hex());
  }
  for (std::size_t i = 0; i < 2; ++i)
    second.sections[0].table[i] = table_entry(second.sections[0].artifacts[i], 1 << i);
  ASSERT_TRUE(
      merge_packs({put("a", first, &key_), put("b", second, &key_)}, folder_ / "ab", trust_, key_));
  const auto merged = read(folder_ / "ab");
  ASSERT_EQ(merged.sections[0].table.size(), 4u);
  for (const auto& entry : merged.sections[0].table)
    for (const auto& a : merged.sections[0].artifacts)
      if (a.code_key == entry.code_key) {
        EXPECT_EQ(a.variant.target, entry.target);
      }
}

TEST_F(PacksTest, DiffTellsWhatChanged) {
  auto first = contents(2, 2), second = first;
  const Path a = put("a", first, &key_);
  EXPECT_TRUE(diff_packs(a, put("b", second, &key_), trust_)->same());
  const std::string code = "changed code";
  second.sections[0].artifacts[0].code_digest = sha256(code);
  second.codes.push_back({sha256(code), code});
  second.sections[0].artifacts.push_back(artifact("group.op1000", 9, code));
  second.sections[0].table.pop_back();
  second.sections[0].attestations = {attestation(second.sections[0].artifacts[1], key_)};
  second.sections.pop_back();
  auto diff = diff_packs(a, put("c", second, nullptr), [&] {
    Trust trust = trust_;
    trust.allow_unsigned = true;
    return trust;
  }());
  ASSERT_TRUE(diff) << diff.error().message;
  const auto name = [&](int i) { return to_string(second.sections[0].artifacts[i].variant); };
  EXPECT_EQ(diff->lines, (std::vector<std::string>{
                             "~ signer: " + key_.public_hex() + " -> unsigned",
                             "~ group.op1000: " + name(0) + ": code", "+ group.op1000: " + name(2),
                             "- group.op1000: 1 measured choices", "+ group.op1000: 1 attestations",
                             "- group.op1001: 2 variants"}));
}

TEST_F(PacksTest, ExtractWritesCodeAndManifests) {
  const auto put_ = contents(2, 3);
  const Path path = put("a", put_, &key_);
  auto files = extract_pack(path, folder_ / "out", {"group.op1001", "sm_90a"}, trust_);
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 3u);
  for (auto file : *files) {
    EXPECT_EQ(file.extension(), ".cubin");
    const auto code = *read_file(file);
    auto manifest = manifest_from_json(*read_file(file.replace_extension(".json")));
    ASSERT_TRUE(manifest) << manifest.error().message;
    EXPECT_EQ(manifest->code_digest, sha256(code));
  }
  auto none = extract_pack(path, folder_ / "out", {"group.op9", ""}, trust_);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("group.op1000"), std::string::npos);
}

}  // namespace
}  // namespace opforge
