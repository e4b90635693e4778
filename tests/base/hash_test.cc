#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <set>

namespace opforge {
namespace {

// FIPS 180-2, appendix B.
TEST(Hash, Sha256Vectors) {
  EXPECT_EQ(sha256("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(std::string(1000000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, DigestTextRoundTripsAndRefusesOtherText) {
  const Digest digest = sha256("abc");
  EXPECT_EQ(*Digest::from_hex(digest.hex()), digest);
  EXPECT_EQ(*Digest::from_hex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            digest);
  EXPECT_EQ(digest.short_hex(), "ba7816bf8f01cfea");
  EXPECT_FALSE(Digest::from_hex("ba78"));
  EXPECT_FALSE(Digest::from_hex(std::string(63, 'a') + "g"));
  EXPECT_TRUE(Digest{}.is_zero());
  EXPECT_FALSE(digest.is_zero());
}

TEST(Fingerprint, FieldsDoNotCollideByConcatenation) {
  std::set<Digest> seen;
  seen.insert(Fingerprint().add("ab", "c").finish());
  seen.insert(Fingerprint().add("a", "bc").finish());
  seen.insert(Fingerprint().add("a", "b").add("c", "").finish());
  seen.insert(Fingerprint().add("a", "b").add("", "c").finish());
  seen.insert(Fingerprint().add("", "abc").finish());
  seen.insert(Fingerprint().finish());
  seen.insert(Fingerprint().add("n", std::int64_t{1}).finish());
  seen.insert(Fingerprint().add("n", 1.0).finish());
  seen.insert(Fingerprint().add("n", "1").finish());
  seen.insert(Fingerprint().add("n", 0.0).finish());
  seen.insert(Fingerprint().add("n", -0.0).finish());
  EXPECT_EQ(seen.size(), 11u);
}

// Length prefixes are 8 bytes little-endian: the digest can be worked out from the bytes.
TEST(Fingerprint, IsTheHashOfLengthPrefixedFields) {
  const std::string bytes("\x01\0\0\0\0\0\0\0n\x02\0\0\0\0\0\0\0xy", 19);
  EXPECT_EQ(Fingerprint().add("n", "xy").finish(), sha256(bytes));
}

TEST(Fingerprint, FinishMayBeRepeatedAndContinued) {
  Fingerprint fingerprint;
  fingerprint.add("a", "1");
  const Digest first = fingerprint.finish();
  EXPECT_EQ(fingerprint.finish(), first);
  fingerprint.add("b", "2");
  EXPECT_EQ(fingerprint.finish(), Fingerprint().add("a", "1").add("b", "2").finish());
}

TEST(FastHash, EveryByteLengthAndSeedMatters) {
  std::set<std::uint64_t> seen;
  std::string data(70, '\0');
  std::size_t count = 0;
  for (std::size_t size = 0; size <= data.size(); ++size, ++count)
    seen.insert(fast_hash(data.data(), size));
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit, ++count) {
      data[i] = static_cast<char>(1 << bit);
      seen.insert(fast_hash(data.data(), data.size()));
    }
    data[i] = 0;
  }
  seen.insert(fast_hash(data.data(), data.size(), 1));
  EXPECT_EQ(seen.size(), count + 1);
}

// Sequential keys must spread over the low bits, which hash tables use.
TEST(FastHash, LowBitsSpread) {
  int buckets[256] = {};
  for (std::int64_t i = 0; i < 256 * 64; ++i) ++buckets[fast_hash(&i, sizeof i) & 255];
  for (int count : buckets) {
    EXPECT_GT(count, 64 - 48);
    EXPECT_LT(count, 64 + 48);
  }
}

}  // namespace
}  // namespace opforge
