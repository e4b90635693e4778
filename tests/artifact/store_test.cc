#include "artifact/store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "artifact/samples.hpp"
#include "base/log.hpp"

namespace opforge {
namespace {

using namespace samples;
namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    set_log_sink(
        [this](LogLevel, std::string_view, std::string_view message) {
          const std::lock_guard lock(mutex_);
          log_ += std::string(message) + "\n";
        },
        LogLevel::kWarning);
    code_ = code_bytes("store", 5000, true);
    loaded_ = {artifact("norm.rms", 1, code_), code_};
    key_ = loaded_.artifact.code_key;
  }
  ~StoreTest() override { set_log_sink({}); }
  Store open() { return *Store::open(folder_ / "store"); }
  Path entry() { return folder_ / ("store/v1/sm_90a/norm.rms/" + key_.hex()); }
  std::optional<Store::Loaded> find() { return open().find("sm_90a", "norm.rms", key_); }
  Result<Store::Loaded> build(bool* compiled) {
    return open().find_or_build(
        "sm_90a", "norm.rms", key_, [&]() -> Result<Store::Loaded> { return loaded_; }, compiled);
  }
  bool logged(const std::string& text) { return log_.find(text) != std::string::npos; }
  Folder folder_;
  std::string code_;
  Store::Loaded loaded_;
  Digest key_;
  std::mutex mutex_;
  std::string log_;
};

TEST_F(StoreTest, PublishesAndFindsWholeEntriesInAPrivateFolder) {
  EXPECT_FALSE(find());
  ASSERT_TRUE(open().publish(loaded_));
  auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, code_);
  EXPECT_EQ(*manifest_to_json(found->artifact), *manifest_to_json(loaded_.artifact));
  struct stat info {};
  ASSERT_EQ(stat((folder_ / "store").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  int names = 0;
  for (const auto& item : fs::directory_iterator(entry().parent_path())) {
    EXPECT_EQ(item.path(), entry());
    ++names;
  }
  EXPECT_EQ(names, 1);
  EXPECT_EQ(log_, "");
}

TEST_F(StoreTest, ManifestKeepsEveryField) {
  auto again = manifest_from_json(*manifest_to_json(loaded_.artifact));
  ASSERT_TRUE(again) << again.error().message;
  const auto &a = *again, &b = loaded_.artifact;
  EXPECT_EQ(to_string(a.variant), to_string(b.variant));
  EXPECT_EQ(a.variant.op, b.variant.op);
  EXPECT_EQ(a.variant.backend, b.variant.backend);
  EXPECT_EQ(a.variant.tier, b.variant.tier);
  EXPECT_EQ(a.variant.dtypes, b.variant.dtypes);
  EXPECT_EQ(a.variant.values, b.variant.values);
  EXPECT_EQ(a.variant.baked, b.variant.baked);  // 1e-300 too: no digit is lost
  EXPECT_EQ(*launch_to_json(a.launch), *launch_to_json(b.launch));
  EXPECT_EQ(a.symbols, b.symbols);
  ASSERT_EQ(a.preconditions.size(), 2u);
  EXPECT_EQ(a.preconditions[0].kind, PreconditionKind::kAlignment);
  EXPECT_EQ(a.preconditions[0].value, 16);
  EXPECT_EQ(a.preconditions[1].dtypes, (std::vector{DType::kBF16, DType::kF16}));
  EXPECT_EQ(a.kind, CodeKind::kCubin);
  EXPECT_EQ(a.code_key, b.code_key);
  EXPECT_EQ(a.code_digest, b.code_digest);
  EXPECT_EQ(a.proof_key, b.proof_key);
  EXPECT_EQ(a.toolchain.name, "nvrtc");
  EXPECT_EQ(a.toolchain.version, "13.0");
  EXPECT_EQ(a.toolchain.digest, b.toolchain.digest);
  EXPECT_EQ(a.resources.registers, 40);
  EXPECT_EQ(a.resources.shared_bytes, 1024);
  EXPECT_EQ(a.resources.local_bytes, 8);
  EXPECT_EQ(a.resources.code_bytes, 5000);
  EXPECT_EQ(a.min_driver, 13000);
  ASSERT_EQ(a.defaults.size(), 2u);
  EXPECT_EQ(a.defaults[0].initial, "min(1024, next_pow2(N / 8))");
  EXPECT_EQ(a.defaults[0].values, (std::vector<std::int64_t>{64, 128, 256, 1024}));
  EXPECT_TRUE(a.defaults[0].changes_bits);
  EXPECT_FALSE(a.defaults[0].specialisation);
  EXPECT_TRUE(a.defaults[1].specialisation);
}

TEST_F(StoreTest, BuildsOnceThenLoads) {
  bool compiled = false;
  ASSERT_TRUE(build(&compiled));
  EXPECT_TRUE(compiled);
  auto second = build(&compiled);
  ASSERT_TRUE(second);
  EXPECT_FALSE(compiled);
  EXPECT_EQ(second->code, code_);
}

TEST_F(StoreTest, FillsInKeyAndDigest) {
  loaded_.artifact.code_key = {};
  loaded_.artifact.code_digest = {};
  auto built = build(nullptr);
  ASSERT_TRUE(built);
  EXPECT_EQ(built->artifact.code_key, key_);
  EXPECT_EQ(built->artifact.code_digest, sha256(code_));
  EXPECT_TRUE(find());
}

// A compiler that exits 1 leaving an empty file, or says so: nothing is published, and the caller
// hears of it.
TEST_F(StoreTest, FailedAndEmptyBuildsPublishNothing) {
  auto failing = open().find_or_build(
      "sm_90a", "norm.rms", key_,
      []() -> Result<Store::Loaded> { return fail(Code::kToolchain, "cc1plus: exited with 1"); },
      nullptr);
  ASSERT_FALSE(failing);
  EXPECT_EQ(failing.error().message, "cc1plus: exited with 1");
  loaded_.code.clear();
  auto empty = build(nullptr);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kToolchain);
  EXPECT_FALSE(find());
  EXPECT_TRUE(open().list()->empty());
}

TEST_F(StoreTest, ArtifactOfAnotherOperatorIsNotPublished) {
  loaded_.artifact.variant.op = "norm.layer";
  EXPECT_EQ(build(nullptr).error().code, Code::kInternal);
  EXPECT_TRUE(open().list()->empty());
}

TEST_F(StoreTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"..", "a/b", "", ".locks", "a\nb"}) {
    EXPECT_FALSE(open().find(name, "op", key_));
    auto built = open().find_or_build(
        "sm_90a", name, key_, [&]() -> Result<Store::Loaded> { return loaded_; }, nullptr);
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().code, Code::kInvalidArgument);
  }
}

// Every kind of damage is a miss with a logged reason, is set aside, and is rebuilt once.
TEST_F(StoreTest, DamageIsAMissSetAsideAndRebuiltOnce) {
  const auto manifest = [&](std::string text) { write_bytes(entry() / "manifest.json", text); };
  const std::string good = *manifest_to_json(loaded_.artifact);
  std::string grid = good;
  grid.replace(grid.find("min(M, 65535)"), 13,
               "min(M, 65534)");  // still well-formed: only the digest tells
  std::string schema = good;
  schema.replace(schema.find("\"schema_version\": 1"), 19, "\"schema_version\": 7");
  auto other = loaded_.artifact;
  other.code_key = digest_of("another");
  auto foreign = loaded_.artifact;
  foreign.variant.target = "sm_80";
  std::string flipped = code_;
  flipped[2500] ^= 1;
  const std::vector<std::pair<std::string, std::function<void()>>> faults = {
      {"manifest.json is missing", [&] { fs::remove(entry() / "manifest.json"); }},
      {"code is missing", [&] { fs::remove(entry() / "code"); }},
      {"manifest", [&] { manifest(""); }},
      {"manifest", [&] { manifest(good.substr(0, good.size() / 2)); }},
      {"manifest",
       [&] {
         manifest(
             "\x7f"
             "ELF");
       }},
      {"manifest: contents have digest", [&] { manifest(grid); }},
      {"schema 7", [&] { manifest(schema); }},
      {"its manifest is of", [&] { manifest(*manifest_to_json(other)); }},
      {"its manifest is of", [&] { manifest(*manifest_to_json(foreign)); }},
      {"code has 0 bytes", [&] { write_bytes(entry() / "code", ""); }},
      {"code has 2000 bytes", [&] { write_bytes(entry() / "code", code_.substr(0, 2000)); }},
      {"code has 5001 bytes", [&] { write_bytes(entry() / "code", code_ + "x"); }},
      {"code has 5000 bytes", [&] { write_bytes(entry() / "code", flipped); }},
      {"is not a folder",
       [&] {
         fs::remove_all(entry());
         write_bytes(entry(), "file");
       }},
  };
  for (const auto& [reason, damage] : faults) {
    SCOPED_TRACE(reason);
    bool compiled = false;
    ASSERT_TRUE(build(&compiled));
    log_.clear();
    damage();
    EXPECT_FALSE(find());
    EXPECT_TRUE(logged(reason)) << log_;
    EXPECT_TRUE(logged("set aside")) << log_;
    EXPECT_FALSE(fs::exists(entry()));
    ASSERT_TRUE(build(&compiled));
    EXPECT_TRUE(compiled);
    ASSERT_TRUE(build(&compiled));
    EXPECT_FALSE(compiled);
  }
  EXPECT_EQ(open().list()->size(), 1u);
  EXPECT_EQ(*open().clear(), 1u);
  EXPECT_FALSE(fs::exists(folder_ / "store/v1/.damaged"));
}

TEST_F(StoreTest, EveryFlippedByteOfTheManifestIsHarmlessOrAMiss) {
  ASSERT_TRUE(open().publish(loaded_));
  const std::string good = *read_file(entry() / "manifest.json");
  const std::string meaning = *manifest_to_json(loaded_.artifact);
  for (std::size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    if (auto artifact = manifest_from_json(bad)) {
      EXPECT_EQ(*manifest_to_json(*artifact), meaning) << i;
    }
  }
}

TEST_F(StoreTest, SixteenProcessesCompileOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      auto got = Store::open(folder_ / "store")
                     ->find_or_build(
                         "sm_90a", "norm.rms", key_,
                         [&]() -> Result<Store::Loaded> {
                           const int fd = ::open((folder_ / "compiles").c_str(),
                                                 O_WRONLY | O_CREAT | O_APPEND, 0600);
                           if (write(fd, "x", 1) != 1) _exit(2);
                           close(fd);
                           std::this_thread::sleep_for(std::chrono::milliseconds(100));
                           return loaded_;
                         },
                         nullptr);
      _exit(got && got->code == code_ ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(*read_file(folder_ / "compiles"), "x");
}

TEST_F(StoreTest, SixteenThreadsCompileOnce) {
  std::atomic<int> compiles{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] {
      auto got = open().find_or_build(
          "sm_90a", "norm.rms", key_,
          [&]() -> Result<Store::Loaded> {
            ++compiles;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return loaded_;
          },
          nullptr);
      EXPECT_TRUE(got);
    });
  threads.clear();
  EXPECT_EQ(compiles, 1);
}

// A process that is killed while it compiles leaves its lock and perhaps a staging folder: neither
// stops the next.
TEST_F(StoreTest, LockWhoseOwnerDied) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto ignored = open().find_or_build(
        "sm_90a", "norm.rms", key_,
        [&]() -> Result<Store::Loaded> {
          fs::create_directories(entry().parent_path() / ".staging-left");
          if (write(ready[1], "x", 1) != 1) _exit(2);
          pause();
          return loaded_;
        },
        nullptr);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  bool compiled = false;
  ASSERT_TRUE(build(&compiled));
  EXPECT_TRUE(compiled);
  EXPECT_EQ(open().list()->size(), 1u);  // the staging folder is no entry
}

// Two hosts do not see each other's locks: both build, the first to publish wins, the other adopts
// it.
TEST_F(StoreTest, LoserAdoptsTheWinner) {
  auto got = open().find_or_build(
      "sm_90a", "norm.rms", key_,
      [&]() -> Result<Store::Loaded> {
        EXPECT_TRUE(open().publish(loaded_));  // the other host, in the middle of our build
        Store::Loaded ours = loaded_;
        ours.code += "ours";
        return ours;
      },
      nullptr);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->code, code_);
  EXPECT_EQ(find()->code, code_);
}

TEST_F(StoreTest, ReadOnlyStoreServesAndLosesNothing) {
  ASSERT_TRUE(open().publish(loaded_));
  const Digest absent = digest_of("absent");
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "store"))
    chmod(item.path().c_str(), item.is_directory() ? 0555 : 0444);
  chmod((folder_ / "store").c_str(), 0555);
  EXPECT_EQ(as_unprivileged([&] {
              auto store = Store::open(folder_ / "store");
              if (!store) return 1;
              bool compiled = true;
              auto found = store->find_or_build(
                  "sm_90a", "norm.rms", key_,
                  []() -> Result<Store::Loaded> { return fail(Code::kInternal, "built"); },
                  &compiled);
              if (!found || compiled || found->code != code_) return 2;
              auto built = store->find_or_build(
                  "sm_90a", "norm.rms", absent, [&]() -> Result<Store::Loaded> { return loaded_; },
                  &compiled);
              if (!built || !compiled || built->code != code_) return 3;
              if (!logged("is not kept")) return 4;
              return store->list()->size() == 1 ? 0 : 5;
            }),
            0);
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "store"))
    chmod(item.path().c_str(), 0755);
}

TEST_F(StoreTest, DamagedEntryOfAReadOnlyStoreIsAMiss) {
  ASSERT_TRUE(open().publish(loaded_));
  write_bytes(entry() / "code", "damaged");
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "store"))
    chmod(item.path().c_str(), item.is_directory() ? 0555 : 0444);
  chmod((folder_ / "store").c_str(), 0555);
  EXPECT_EQ(as_unprivileged([&] {
              bool compiled = false;
              auto built = build(&compiled);
              return built && compiled && built->code == code_ && logged("left where it is") ? 0
                                                                                             : 1;
            }),
            0);
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "store"))
    chmod(item.path().c_str(), 0755);
}

TEST_F(StoreTest, FullDiskIsLoggedAndLosesNothing) {
  SmallDisk disk(folder_ / "store", 64);
  if (!disk.mounted()) GTEST_SKIP() << "full disk: mounting a tmpfs is not allowed here";
  loaded_.code = code_ = code_bytes("large", 200'000, false);
  loaded_.artifact.code_digest = sha256(code_);
  bool compiled = false;
  auto built = build(&compiled);
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_TRUE(compiled);
  EXPECT_EQ(built->code, code_);
  EXPECT_TRUE(logged("No space left")) << log_;
  EXPECT_FALSE(find());
  EXPECT_TRUE(open().list()->empty());
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "store"))
    EXPECT_EQ(item.path().filename().string().find(".staging"), std::string::npos) << item.path();
}

TEST_F(StoreTest, RootThatIsAFile) {
  write_bytes(folder_ / "file", "x");
  auto store = Store::open(folder_ / "file");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kIo);
  EXPECT_NE(store.error().message.find((folder_ / "file").string()), std::string::npos);
  EXPECT_EQ(Store::open(folder_ / "file/below").error().code, Code::kIo);
}

TEST_F(StoreTest, RootThatCannotBeMade) {
  fs::create_directory(folder_ / "home");
  chmod((folder_ / "home").c_str(), 0555);
  EXPECT_EQ(as_unprivileged([&] {
              auto store = Store::open(folder_ / "home/.cache/opforge");
              return !store && store.error().code == Code::kIo ? 0 : 1;
            }),
            0);
}

TEST_F(StoreTest, RootThatEverybodyMayWrite) {
  fs::create_directory(folder_ / "shared");
  chmod((folder_ / "shared").c_str(), 01777);
  auto store = Store::open(folder_ / "shared");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUntrusted);
  EXPECT_TRUE(Store::open(folder_ / "shared/mine"));
}

TEST_F(StoreTest, NoHomeKeepsNothingAndWorks) {
  auto store = Store::open({});
  ASSERT_TRUE(store);
  bool compiled = false;
  for (int i = 0; i < 2; ++i) {
    auto built = store->find_or_build(
        "sm_90a", "norm.rms", key_, [&]() -> Result<Store::Loaded> { return loaded_; }, &compiled);
    ASSERT_TRUE(built);
    EXPECT_TRUE(compiled);
  }
  EXPECT_TRUE(store->list()->empty());
  EXPECT_EQ(*store->clear(), 0u);
}

// An artifact for one architecture is never found for another: entries live side by side.
TEST_F(StoreTest, TargetsDoNotMix) {
  auto other = loaded_;
  other.artifact.variant.target = "sm_90";
  other.code += "other";
  other.artifact.code_digest = sha256(other.code);
  ASSERT_TRUE(open().publish(loaded_));
  EXPECT_FALSE(open().find("sm_90", "norm.rms", key_));
  ASSERT_TRUE(open().publish(other));
  EXPECT_EQ(open().find("sm_90", "norm.rms", key_)->code, other.code);
  EXPECT_EQ(find()->code, code_);
  EXPECT_EQ(*open().clear("sm_90"), 1u);
  EXPECT_FALSE(open().find("sm_90", "norm.rms", key_));
  EXPECT_TRUE(find());
}

TEST_F(StoreTest, ListClearAndPrune) {
  auto store = open();
  for (int i = 0; i < 5; ++i) {
    const std::string code = code_bytes(std::to_string(i), 1000, false);
    ASSERT_TRUE(store.publish({artifact("norm.rms", i, code), code}));
    const auto written = fs::file_time_type::clock::now() - std::chrono::seconds(100 * (i + 1));
    fs::last_write_time(
        folder_ / ("store/v1/sm_90a/norm.rms/" + digest_of("norm.rms" + std::to_string(i)).hex()),
        written);
  }
  auto entries = store.list();
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 5u);
  for (const auto& entry : *entries) {
    EXPECT_EQ(entry.target, "sm_90a");
    EXPECT_EQ(entry.op, "norm.rms");
    EXPECT_GT(entry.size_bytes, 1000u);
    EXPECT_NE(entry.variant.find("norm.rms.cuda.row{T=bf16,W=f32}"), std::string::npos)
        << entry.variant;
  }
  EXPECT_EQ(*store.prune(UINT64_MAX, 350), 2u);  // 400 and 500 seconds old
  const std::uint64_t one = entries->front().size_bytes;
  EXPECT_EQ(*store.prune(one * 2 + one / 2, -1), 1u);  // the oldest of three
  EXPECT_TRUE(store.find("sm_90a", "norm.rms", digest_of("norm.rms0")));
  EXPECT_TRUE(store.find("sm_90a", "norm.rms", digest_of("norm.rms1")));
  EXPECT_FALSE(store.find("sm_90a", "norm.rms", digest_of("norm.rms2")));
  EXPECT_EQ(*store.clear(), 2u);
  EXPECT_TRUE(store.list()->empty());
}

}  // namespace
}  // namespace opforge
