#include "base/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace opforge {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  TempDir dir_ = TempDir::create(fs::temp_directory_path(), "opforge-files").value();
  Path at(std::string_view name) const { return dir_.path() / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator{}));
  }
};

TEST_F(Files, ReadsWhatWasWritten) {
  const std::string bytes("a\0b\n\xff", 5);
  ASSERT_TRUE(write_file_atomic(at("f"), bytes, 0640));
  EXPECT_EQ(*read_file(at("f")), bytes);
  struct stat info {};
  ASSERT_EQ(stat(at("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  ASSERT_TRUE(write_file_atomic(at("f"), ""));
  EXPECT_EQ(*read_file(at("f")), "");
  EXPECT_EQ(entries(), 1u);  // nothing staged is left
}

TEST_F(Files, ErrorsNameThePath) {
  const auto absent = read_file(at("absent"));
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_NE(absent.error().message.find(at("absent").string()), std::string::npos);
  EXPECT_EQ(read_file(dir_.path()).error().code, Code::kIo);
  const auto status = write_file_atomic(at("no/such/folder"), "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kIo);
  ASSERT_TRUE(write_file_atomic(at("file"), "x"));
  const auto below_file = make_dirs(at("file/below"));
  ASSERT_FALSE(below_file);
  EXPECT_EQ(below_file.error().code, Code::kIo);
  EXPECT_NE(below_file.error().message.find("file"), std::string::npos);
  ASSERT_TRUE(fs::create_directory(at("folder")));
  EXPECT_FALSE(write_file_atomic(at("folder"), "x"));  // a folder is not replaced
}

TEST_F(Files, MakesParentsPrivate) {
  ASSERT_TRUE(make_dirs(at("a/b/c")));
  ASSERT_TRUE(make_dirs(at("a/b/c/")));
  struct stat info {};
  ASSERT_EQ(stat(at("a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(Files, ReadersSeeTheOldOrTheNewBytes) {
  const std::string one(100000, '1'), two(70000, '2');
  ASSERT_TRUE(write_file_atomic(at("f"), one));
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(write_file_atomic(at("f"), i % 2 == 0 ? two : one));
    stop = true;
  });
  while (!stop) {
    const auto bytes = read_file(at("f"));
    ASSERT_TRUE(bytes);
    ASSERT_TRUE(*bytes == one || *bytes == two);
  }
}

// Fork `count` children that run `work`; the exit codes.
template <class Work>
std::vector<int> in_processes(int count, Work work) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(work(i));
    children.push_back(pid);
  }
  std::vector<int> codes;
  for (pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
  }
  return codes;
}

TEST_F(Files, SixteenProcessesPublishOneFolder) {
  const auto codes = in_processes(16, [&](int i) {
    auto staged = TempDir::create(dir_.path(), "stage");
    if (!staged ||
        !write_file_atomic(staged->path() / "code", std::string(50000, static_cast<char>('a' + i))))
      return 9;
    const auto published = publish_dir(staged->release(), at("target"));
    if (!published) return 8;
    const auto code = read_file(at("target/code"));
    return !code || code->size() != 50000 ? 7 : *published ? 1 : 0;
  });
  EXPECT_EQ(std::count(codes.begin(), codes.end(), 1), 1);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), 0), 15);
  const auto code = read_file(at("target/code"));
  EXPECT_EQ(code->find_first_not_of(code->front()), std::string::npos);
  EXPECT_EQ(entries(), 1u);  // losers removed what they staged
}

TEST_F(Files, SixteenThreadsPublishOneFolder) {
  std::atomic<int> won{0}, failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        auto staged = TempDir::create(dir_.path(), "stage");
        (void)write_file_atomic(staged->path() / "code", "x");
        const auto published = publish_dir(staged->release(), at("target"));
        (published ? (*published ? won : failed) : failed) += published && !*published ? 0 : 1;
      });
    }
  }
  EXPECT_EQ(won, 1);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, PublishOverAFileIsRefused) {
  ASSERT_TRUE(write_file_atomic(at("target"), "x"));
  auto staged = TempDir::create(dir_.path(), "stage");
  const auto published = publish_dir(staged->path(), at("target"));
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Code::kIo);
}

TEST_F(Files, TempDirRemovesUnlessReleased) {
  Path gone, kept;
  {
    auto one = TempDir::create(dir_.path(), "one"), two = TempDir::create(dir_.path(), "two");
    ASSERT_TRUE(make_dirs(one->path() / "deep/er"));
    gone = one->path();
    kept = two->release();
    TempDir moved = std::move(*one);
  }
  EXPECT_FALSE(fs::exists(gone));
  EXPECT_TRUE(fs::exists(kept));
}

TEST_F(Files, LockExcludesAndTimesOut) {
  auto held = FileLock::acquire(at("lock"), 0);
  ASSERT_TRUE(held);
  const auto second = FileLock::acquire(at("lock"), 30);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kTimeout);
  { FileLock released = std::move(*held); }
  EXPECT_TRUE(FileLock::acquire(at("lock"), 0));
  EXPECT_EQ(FileLock::acquire(at("no/folder/lock"), 0).error().code, Code::kIo);
}

TEST_F(Files, LockOfADeadOwnerIsFree) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto lock = FileLock::acquire(at("lock"), 0);
    const char byte = lock ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_EQ(FileLock::acquire(at("lock"), 0).error().code, Code::kTimeout);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(FileLock::acquire(at("lock"), 1000));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(Files, LockFileThatWasRemovedIsNotHeldByTwo) {
  auto first = FileLock::acquire(at("lock"), 0);
  ASSERT_TRUE(first);
  std::atomic<bool> got{false};
  std::jthread waiter([&] { got = FileLock::acquire(at("lock"), -1).has_value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fs::remove(at("lock"));  // the cache is cleared while one holds and one waits
  { FileLock released = std::move(*first); }
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_TRUE(fs::exists(at("lock")));
}

TEST_F(Files, LockCountsRightAcrossProcesses) {
  ASSERT_TRUE(write_file_atomic(at("count"), "0"));
  const auto codes = in_processes(16, [&](int) {
    for (int i = 0; i < 5; ++i) {
      auto lock = FileLock::acquire(at("lock"), -1);
      if (!lock) return 1;
      const int count = std::atoi(read_file(at("count"))->c_str());
      std::ofstream(at("count")) << count + 1;
    }
    return 0;
  });
  EXPECT_EQ(std::count(codes.begin(), codes.end(), 0), 16);
  EXPECT_EQ(*read_file(at("count")), "80");
}

TEST_F(Files, MappedFileCopiesAndNoticesACut) {
  ASSERT_TRUE(write_file_atomic(at("f"), "0123456789"));
  auto file = MappedFile::open(at("f"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size_bytes(), 10u);
  EXPECT_EQ(*file->copy(3, 4), "3456");
  EXPECT_EQ(*file->copy(10, 0), "");
  for (const auto& [offset, size] :
       {std::pair<std::uint64_t, std::uint64_t>{8, 3}, {11, 0}, {~0ull, 2}, {2, ~0ull}}) {
    const auto part = file->copy(offset, size);
    ASSERT_FALSE(part);
    EXPECT_EQ(part.error().code, Code::kCorrupt);
  }
  ASSERT_EQ(truncate(at("f").c_str(), 5), 0);
  EXPECT_EQ(file->copy(3, 4).error().code, Code::kCorrupt);
  EXPECT_EQ(*file->copy(0, 5), "01234");
  EXPECT_EQ(MappedFile::open(at("absent")).error().code, Code::kNotFound);
  EXPECT_EQ(MappedFile::open(dir_.path()).error().code, Code::kIo);
}

TEST_F(Files, FoldersFollowTheEnvironment) {
  for (const char* name : {"OPFORGE_CACHE_DIR", "OPFORGE_STATE_DIR", "OPFORGE_CONFIG_DIR",
                           "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"}) {
    unsetenv(name);
  }
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  setenv("HOME", "/home/u", 1);
  EXPECT_EQ(user_folders().cache, "/home/u/.cache/opforge");
  EXPECT_EQ(user_folders().state, "/home/u/.local/state/opforge");
  setenv("XDG_CONFIG_HOME", "/xdg", 1);
  EXPECT_EQ(user_folders().config, "/xdg/opforge");
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(user_folders().config, "/home/u/.config/opforge");
  setenv("OPFORGE_CACHE_DIR", "/own", 1);
  EXPECT_EQ(user_folders().cache, "/own");
  unsetenv("HOME");
  EXPECT_EQ(user_folders().state, "");
  unsetenv("OPFORGE_CACHE_DIR");
  unsetenv("XDG_CONFIG_HOME");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace opforge
