#include <gtest/gtest.h>

#include "artifact/samples.hpp"

namespace opforge {
namespace {

using namespace samples;

// RFC 8032, section 7.1, tests 1 to 3.
struct Vector {
  const char *seed, *pub, *message, *signature;
  std::size_t message_size;
};
const Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "46bd25bf5f0595bbe24"
     "655141438e7a100b",
     0},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d8c387b2eaeb4302aee"
     "b00d291612bb0c00",
     1},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6594a7c15e9716ed28d"
     "c027beceea1ec40a",
     2}};

TEST(Ed25519, Rfc8032) {
  Folder folder;
  for (const auto& v : kVectors) {
    const std::string_view message(v.message, v.message_size);
    EXPECT_TRUE(verify_signature(v.pub, message, v.signature));
    EXPECT_FALSE(verify_signature(v.pub, std::string(message) + "x", v.signature));
    std::string other = v.signature;
    other[3] = other[3] == '0' ? '1' : '0';
    EXPECT_FALSE(verify_signature(v.pub, message, other));
    const Path file = folder / v.pub;
    write_bytes(file, std::string("opforge-signing-key ") + v.seed + "\n");
    chmod(file.c_str(), 0600);
    auto key = SigningKey::load(file);
    ASSERT_TRUE(key) << key.error().message;
    EXPECT_EQ(key->public_hex(), v.pub);
    EXPECT_EQ(key->sign(message), v.signature);
  }
}

TEST(Ed25519, MalformedHexIsNoSignature) {
  const auto& v = kVectors[0];
  for (const std::string& bad :
       {std::string(), std::string(64, 'g'), std::string(v.pub).substr(1), std::string(64, '0')})
    EXPECT_FALSE(verify_signature(bad, "", v.signature));
  for (const std::string& bad : {std::string(), std::string(128, 'z'),
                                 std::string(v.signature) + "00", std::string(128, '0')})
    EXPECT_FALSE(verify_signature(v.pub, "", bad));
}

TEST(UserKey, IsMadeOncePrivateAndStays) {
  Folder folder;
  const Path config = folder / "deep/config";
  auto first = SigningKey::user_key(config);
  ASSERT_TRUE(first) << first.error().message;
  auto second = SigningKey::user_key(config);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->public_hex(), second->public_hex());
  struct stat info {};
  ASSERT_EQ(stat((config / "signing.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(config.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_TRUE(verify_signature(first->public_hex(), "text", second->sign("text")));
  auto over = SigningKey::generate().save(config / "signing.key");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::kIo);
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(config)) ++files;
  EXPECT_EQ(files, 1);  // nothing half-written is left
}

TEST(UserKey, SixteenFirstUsesAtOnceEndWithOneKey) {
  Folder folder;
  const Path config = folder / "config";
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      auto key = SigningKey::user_key(config);
      if (!key) _exit(1);
      write_bytes(folder / ("key" + std::to_string(i)), key->public_hex());
      _exit(0);
    }
    children.push_back(child);
  }
  std::set<std::string> keys;
  for (int i = 0; i < 16; ++i) {
    int status = 0;
    waitpid(children[i], &status, 0);
    EXPECT_EQ(status, 0);
    keys.insert(*read_file(folder / ("key" + std::to_string(i))));
  }
  EXPECT_EQ(keys.size(), 1u);
}

TEST(UserKey, RefusesAKeyThatOthersCanRead) {
  Folder folder;
  ASSERT_TRUE(SigningKey::user_key(folder / "c"));
  for (unsigned mode : {0640u, 0604u, 0660u, 0601u}) {
    chmod((folder / "c/signing.key").c_str(), mode);
    auto key = SigningKey::user_key(folder / "c");
    ASSERT_FALSE(key);
    EXPECT_EQ(key.error().code, Code::kUntrusted);
    EXPECT_NE(key.error().message.find("chmod 600"), std::string::npos) << key.error().message;
  }
}

TEST(UserKey, DamagedFileIsNamedAndNotReplaced) {
  Folder folder;
  const std::string seed = kVectors[0].seed;
  for (const std::string& text : {std::string(), seed, "opforge-signing-key " + seed.substr(2),
                                  "opforge-signing-key " + seed + "00", std::string(200000, 'a')}) {
    write_bytes(folder / "signing.key", text);
    chmod((folder / "signing.key").c_str(), 0600);
    auto key = SigningKey::user_key(folder.path());
    ASSERT_FALSE(key) << text.substr(0, 100);
    EXPECT_EQ(key.error().code, Code::kCorrupt);
    EXPECT_EQ(*read_file(folder / "signing.key"), text);
  }
}

TEST(UserKey, WithoutAFolderSaysWhatToSet) {
  auto key = SigningKey::user_key({});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Code::kIo);
  EXPECT_NE(key.error().message.find("OPFORGE_CONFIG_DIR"), std::string::npos);
}

TEST(UserKey, ReadOnlyFolderIsAnErrorThatNamesIt) {
  Folder folder;
  std::filesystem::create_directory(folder / "ro");
  chmod((folder / "ro").c_str(), 0555);
  EXPECT_EQ(as_unprivileged([&] {
              auto key = SigningKey::user_key(folder / "ro");
              return !key && key.error().code == Code::kIo &&
                             key.error().message.find((folder / "ro").string()) != std::string::npos
                         ? 0
                         : 1;
            }),
            0);
}

class TrustTest : public ::testing::Test {
 protected:
  TrustTest() : variable_("OPFORGE_TRUST", "") {}
  Folder folder_;
  ScopedVariable variable_;
  const std::string key_ = kVectors[0].pub;
  const std::string other_ = kVectors[1].pub;
};

TEST_F(TrustTest, OwnKeyListedKeysAndNamedKeys) {
  auto own = SigningKey::user_key(folder_.path());
  ASSERT_TRUE(own);
  write_bytes(folder_ / "trusted.keys", "# keys of the team\n\n" + key_ + " # the build machine\n");
  write_bytes(folder_ / "more", "  " + other_ + "\n");
  const ScopedVariable named("OPFORGE_TRUST", (folder_ / "more").string() + ":" + kVectors[2].pub);
  auto trust = process_trust(folder_.path());
  ASSERT_TRUE(trust) << trust.error().message;
  EXPECT_EQ(trust->keys, (std::set<std::string>{own->public_hex(), key_, other_, kVectors[2].pub}));
  EXPECT_FALSE(trust->allow_unsigned);
}

TEST_F(TrustTest, WithoutAFolderOnlyWhatIsNamed) {
  auto none = process_trust({});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->keys.empty());
  const ScopedVariable named("OPFORGE_TRUST", key_);
  auto trust = process_trust({});
  ASSERT_TRUE(trust);
  EXPECT_EQ(trust->keys, std::set<std::string>{key_});
}

TEST_F(TrustTest, NoKeyIsMade) {
  ASSERT_TRUE(process_trust(folder_.path()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  ASSERT_TRUE(process_trust(folder_ / "absent"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "absent"));
}

TEST_F(TrustTest, UpperCaseKeysAreTheSameKeys) {
  std::string upper = key_;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  const ScopedVariable named("OPFORGE_TRUST", upper);
  EXPECT_TRUE(process_trust({})->trusts(key_));
}

TEST_F(TrustTest, MalformedListsAreErrorsWithLine) {
  write_bytes(folder_ / "trusted.keys", key_ + "\n" + key_.substr(1) + "\n");
  auto trust = process_trust(folder_.path());
  ASSERT_FALSE(trust);
  EXPECT_EQ(trust.error().code, Code::kCorrupt);
  EXPECT_NE(trust.error().message.find("trusted.keys:2"), std::string::npos)
      << trust.error().message;
}

TEST_F(TrustTest, ListThatOthersCanWriteIsRefused) {
  write_bytes(folder_ / "trusted.keys", key_ + "\n");
  chmod((folder_ / "trusted.keys").c_str(), 0666);
  auto trust = process_trust(folder_.path());
  ASSERT_FALSE(trust);
  EXPECT_EQ(trust.error().code, Code::kUntrusted);
}

TEST_F(TrustTest, NamedFileThatIsAbsentIsAnError) {
  const ScopedVariable named("OPFORGE_TRUST", (folder_ / "nothing").string());
  auto trust = process_trust({});
  ASSERT_FALSE(trust);
  EXPECT_EQ(trust.error().code, Code::kNotFound);
  EXPECT_NE(trust.error().message.find("OPFORGE_TRUST"), std::string::npos);
}

TEST_F(TrustTest, AddKeepsWhatIsThereAndIsRepeatable) {
  write_bytes(folder_ / "trusted.keys", "# mine\n" + key_ + " # a");
  chmod((folder_ / "trusted.keys").c_str(), 0600);
  ASSERT_TRUE(trust_add(folder_.path(), other_));
  ASSERT_TRUE(trust_add(folder_.path(), other_));
  ASSERT_TRUE(trust_add(folder_.path(), key_));
  EXPECT_EQ(*read_file(folder_ / "trusted.keys"), "# mine\n" + key_ + " # a\n" + other_ + "\n");
  write_bytes(folder_ / "pub", std::string(kVectors[2].pub) + "\n");
  ASSERT_TRUE(trust_add(folder_ / "new", (folder_ / "pub").string()));
  EXPECT_TRUE(process_trust(folder_ / "new")->trusts(kVectors[2].pub));
}

TEST_F(TrustTest, AddRefusesWhatIsNoPublicKey) {
  EXPECT_EQ(trust_add(folder_.path(), "hello").error().code, Code::kNotFound);
  EXPECT_EQ(trust_add(folder_.path(), std::string(64, '0')).error().code, Code::kInvalidArgument);
  EXPECT_EQ(trust_add({}, key_).error().code, Code::kIo);
  ASSERT_TRUE(SigningKey::user_key(folder_ / "own"));
  auto secret = trust_add(folder_.path(), (folder_ / "own/signing.key").string());
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().code, Code::kInvalidArgument);
  EXPECT_NE(secret.error().message.find("secret"), std::string::npos);
}

TEST_F(TrustTest, EightAddsAtOnceLoseNone) {
  std::vector<pid_t> children;
  std::vector<std::string> keys;
  for (int i = 0; i < 8; ++i) keys.push_back(SigningKey::generate().public_hex());
  for (const auto& key : keys) {
    const pid_t child = fork();
    if (child == 0) _exit(trust_add(folder_.path(), key) ? 0 : 1);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  auto trust = process_trust(folder_.path());
  ASSERT_TRUE(trust);
  EXPECT_EQ(trust->keys, std::set<std::string>(keys.begin(), keys.end()));
}

}  // namespace
}  // namespace opforge
