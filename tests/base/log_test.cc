#include "base/log.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace opforge {
namespace {

TEST(Log, GoesNowhereWithoutASinkAndFiltersByLevel) {
  set_log_sink({});
  EXPECT_FALSE(log_enabled(LogLevel::kError));
  std::vector<std::string> seen;
  set_log_sink(
      [&](LogLevel, std::string_view subsystem, std::string_view message) {
        seen.push_back(std::string(subsystem) + ": " + std::string(message));
      },
      LogLevel::kWarning);
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  log(LogLevel::kInfo, "store", "not shown");
  log(LogLevel::kWarning, "store", "shown");
  set_log_sink({});
  log(LogLevel::kError, "store", "too late");
  EXPECT_EQ(seen, std::vector<std::string>{"store: shown"});
}

TEST(Log, SinkMayBeReplacedWhileOthersLog) {
  std::atomic<int> count{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) log(LogLevel::kError, "test", "message");
    });
  }
  for (int i = 0; i < 200 || count < 100; ++i) set_log_sink([&](auto, auto, auto) { ++count; });
  stop = true;
  threads.clear();
  set_log_sink({});
  EXPECT_GE(count, 100);
}

}  // namespace
}  // namespace opforge
