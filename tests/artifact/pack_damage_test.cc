// Damage of every kind: it is found before what it touches is used, and named. Nothing crashes.
#include <gtest/gtest.h>

#include <random>

#include "artifact/reseal.hpp"

namespace opforge {
namespace {

using namespace samples;

class PackDamageTest : public ::testing::Test {
 protected:
  PackDamageTest() {
    trust_ = trusting(key_);
    trust_.allow_unsigned = true;
    auto put = contents(2, 4, 600);
    put.sections[0].attestations = {attestation(put.sections[0].artifacts[0], key_)};
    signed_ = *pack_bytes(put, &key_);
    unsigned_ = *pack_bytes(put, nullptr);
  }
  // All that a process could do with the file.
  Status use(const std::string& bytes) {
    write_bytes(file_, bytes);
    OPFORGE_ASSIGN(auto pack, Pack::open(file_, trust_));
    return pack->verify_all();
  }
  Folder folder_;
  const Path file_ = folder_ / "p.ofpack";
  const SigningKey key_ = SigningKey::generate();
  Trust trust_;
  std::string signed_, unsigned_;
};

TEST_F(PackDamageTest, TheSamplesAreGood) {
  EXPECT_TRUE(use(signed_));
  EXPECT_TRUE(use(unsigned_));
}

TEST_F(PackDamageTest, AnyFlippedBitOfHeaderAndRoot) {
  const auto header_and_root = [&](const std::string& good) {
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < kPackHeaderBytes; ++i) at.push_back(i);
    for (std::size_t i = root_of(good).offset; i < good.size(); ++i) at.push_back(i);
    for (std::size_t i : at)
      for (int bit = static_cast<int>(i % 3); bit < 8; bit += 3) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
        write_bytes(file_, bad);
        auto pack = Pack::open(file_, trust_);
        EXPECT_FALSE(pack) << "byte " << i << " bit " << bit;
      }
  };
  header_and_root(signed_);
  header_and_root(unsigned_);
}

TEST_F(PackDamageTest, FlippedBitsOfSectionsBlobsAndPadding) {
  for (std::size_t i = kPackHeaderBytes; i < root_of(signed_).offset; i += 23) {
    std::string bad = signed_;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    auto status = use(bad);
    ASSERT_FALSE(status) << "byte " << i;
    EXPECT_EQ(status.error().code, Code::kCorrupt);
  }
}

TEST_F(PackDamageTest, DamageTouchesOnlyWhatItIsIn) {
  std::string bad = signed_;
  bad[section_of(bad, 0).offset + 40] ^= 4;
  write_bytes(file_, bad);
  auto pack = Pack::open(file_, trust_);
  ASSERT_TRUE(pack);
  auto section = (*pack)->section("group.op1000");
  ASSERT_FALSE(section);
  EXPECT_EQ(section.error().code, Code::kCorrupt);
  EXPECT_NE(section.error().message.find("section 'group.op1000'"), std::string::npos)
      << section.error().message;
  auto other = (*pack)->section("group.op1001");
  ASSERT_TRUE(other);
  for (const auto& a : (*other)->artifacts) EXPECT_TRUE((*pack)->code(a));

  bad = signed_;
  bad[blobs_of(bad).offset] ^= 4;
  write_bytes(file_, bad);
  pack = Pack::open(file_, trust_);
  ASSERT_TRUE(pack);
  int damaged = 0;
  for (const auto& op : (*pack)->operators())
    for (const auto& a : (*(*pack)->section(op))->artifacts)
      if (auto code = (*pack)->code(a); !code) {
        ++damaged;
        EXPECT_EQ(code.error().code, Code::kCorrupt);
        EXPECT_NE(code.error().message.find(to_string(a.variant)), std::string::npos)
            << code.error().message;
        EXPECT_NE(code.error().message.find(file_.string()), std::string::npos);
      }
  EXPECT_GE(damaged, 1);
  EXPECT_LE(damaged, 2);
}

TEST_F(PackDamageTest, TruncatedAtAnyLength) {
  for (std::size_t length = 0; length < signed_.size(); length += length < 300 ? 1 : 61) {
    write_bytes(file_, signed_.substr(0, length));
    auto pack = Pack::open(file_, trust_);
    ASSERT_FALSE(pack) << length;
    EXPECT_EQ(pack.error().code, Code::kCorrupt) << length;
  }
  EXPECT_FALSE(use(signed_.substr(0, signed_.size() - 1)));
  EXPECT_FALSE(use(signed_ + '\0'));
}

TEST_F(PackDamageTest, CutOrChangedWhileOpen) {
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{300}, blobs_of(signed_).offset + 10}) {
    write_bytes(file_, signed_);
    auto pack = Pack::open(file_, trust_);
    ASSERT_TRUE(pack);
    auto early = (*pack)->section("group.op1000");
    ASSERT_TRUE(early);
    std::filesystem::resize_file(file_, length);
    bool refused = false;
    for (const auto& a : (*early)->artifacts)
      if (auto code = (*pack)->code(a); !code) {
        EXPECT_EQ(code.error().code, Code::kCorrupt);
        refused = true;
      }
    EXPECT_TRUE(refused);
    EXPECT_EQ((*early)->artifacts.size(), 4u);  // what was loaded stays
    if (length == 0) {
      EXPECT_EQ((*pack)->section("group.op1001").error().code, Code::kCorrupt);
    }
  }
  write_bytes(file_, signed_);
  auto pack = Pack::open(file_, trust_);
  ASSERT_TRUE(pack);
  {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(section_of(signed_, 1).offset));
    file << "changed in place";
  }
  EXPECT_EQ((*pack)->section("group.op1001").error().code, Code::kCorrupt);
  EXPECT_TRUE((*pack)->section("group.op1000"));
}

TEST_F(PackDamageTest, ReplacedByAnotherPackWhileOpen) {
  ASSERT_TRUE(write_pack(file_, contents(2, 4, 600), &key_));
  auto pack = Pack::open(file_, trust_);
  ASSERT_TRUE(pack);
  ASSERT_TRUE(write_pack(file_, contents(1, 1, 600),
                         &key_));  // a rename: the open one still reads the old file
  EXPECT_TRUE((*pack)->verify_all());
}

TEST_F(PackDamageTest, RandomBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 3000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 2 == 1) bytes.insert(0, signed_.substr(0, i % 4 == 1 ? 12 : kPackHeaderBytes));
    EXPECT_FALSE(use(bytes));
  }
}

// A section whose digests are right but whose FlatBuffer is not: no signature protects an unsigned
// pack from that.
TEST_F(PackDamageTest, MalformedSectionsWithRightDigests) {
  std::mt19937_64 random(2);
  const Part part = section_of(unsigned_, 1);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = unsigned_;
    const std::size_t at = random() % (part.size - 8);
    std::string bytes(1 + random() % 8, '\0');
    for (char& c : bytes) c = static_cast<char>(i % 3 == 0 ? 0xff : random());
    change_section(bad, 1, at, bytes, nullptr);
    auto status = use(bad);
    refused += status ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

TEST_F(PackDamageTest, MalformedRootsWithRightDigests) {
  std::mt19937_64 random(3);
  const Part part = root_of(unsigned_);
  for (int i = 0; i < 1500; ++i) {
    std::string bad = unsigned_;
    const std::size_t at = part.offset + random() % part.size;
    bad[at] = static_cast<char>(i % 3 == 0 ? 0xff : random());
    reseal_root(bad, nullptr);
    if (auto status = use(bad); !status) {
      EXPECT_TRUE(status.error().code == Code::kCorrupt ||
                  status.error().code == Code::kIncompatible ||
                  status.error().code == Code::kNotFound)
          << status.error().message;
    }
  }
}

// Compressed code that unfolds to more than it says, and a size that nobody could hold.
TEST_F(PackDamageTest, WrongSizesOfCode) {
  const Part part = section_of(unsigned_, 0);
  for (const std::uint64_t claimed : {std::uint64_t{1}, std::uint64_t{599}, std::uint64_t{601},
                                      std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string bad = unsigned_;
    auto* section = flatbuffers::GetMutableRoot<fb::Section>(bad.data() + part.offset);
    int changed = 0;
    for (const auto* blob : *section->blobs()) {
      const auto at = reinterpret_cast<const char*>(blob) - (bad.data() + part.offset);
      const std::size_t field =
          at + reinterpret_cast<const flatbuffers::Table*>(blob)->GetOptionalFieldOffset(
                   fb::Blob::VT_SIZE_BYTES);
      std::string bytes(8, '\0');
      std::memcpy(bytes.data(), &claimed, 8);
      change_section(bad, 0, field, bytes, nullptr);
      ++changed;
    }
    ASSERT_GT(changed, 0);
    auto status = use(bad);
    ASSERT_FALSE(status) << claimed;
    EXPECT_EQ(status.error().code, Code::kCorrupt) << status.error().message;
  }
}

// A builder's own writer would not let such an attestation in; somebody else's might.
TEST_F(PackDamageTest, AttestationWithAWrongSignature) {
  for (const bool with_key : {true, false}) {
    std::string bad = with_key ? signed_ : unsigned_;
    const Part part = section_of(bad, 0);
    const std::string model = "NVIDIA H200";
    const std::size_t at = bad.find(model, part.offset) - part.offset;
    ASSERT_LT(at, part.size);
    change_section(bad, 0, at, "NVIDIA H999", with_key ? &key_ : nullptr);
    write_bytes(file_, bad);
    auto pack = Pack::open(file_, trust_);
    ASSERT_TRUE(pack) << pack.error().message;
    auto all = (*pack)->verify_all();
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, Code::kUntrusted) << all.error().message;
    EXPECT_NE(all.error().message.find("attestation of"), std::string::npos) << all.error().message;
    auto section = (*pack)->section("group.op1000");
    ASSERT_TRUE(section);
    EXPECT_EQ((*section)->attestations.size(), with_key ? 1u : 0u);
  }
}

}  // namespace
}  // namespace opforge
