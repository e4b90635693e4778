#include "base/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace opforge {
namespace {

using namespace std::chrono_literals;

ProcessSpec shell(std::string script) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", std::move(script)};
  return spec;
}

ProcessResult run_shell(std::string script, double limit_s = 10) {
  auto spec = shell(std::move(script));
  spec.time_limit_s = limit_s;
  return run_process(spec).value();
}

// A process is gone, or a zombie that its new parent has not reaped yet.
bool is_gone(pid_t pid) {
  for (int i = 0; i < 200; ++i) {
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    if (!stat || stat->find(") Z ") != std::string::npos || stat->find(") X ") != std::string::npos)
      return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(Process, OutputErrorsAndExitCode) {
  const auto result = run_shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.describe(), "exited with 3");
}

TEST(Process, InputLargerThanAPipe) {
  auto spec = shell("cat");
  spec.input = std::string(3 << 20, 'x') + "end";
  const auto result = run_process(spec).value();
  EXPECT_EQ(result.output, spec.input);
}

TEST(Process, AChildThatDoesNotReadItsInputIsNoError) {
  auto spec = shell("exec 0<&-; sleep 0.1; echo done");
  spec.input = std::string(3 << 20, 'x');
  EXPECT_EQ(run_process(spec).value().output, "done\n");
}

TEST(Process, SignalsAreNamed) {
  const auto result = run_shell("kill -SEGV $$");
  EXPECT_EQ(result.end, ProcessEnd::kSignalled);
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(result.describe(), "killed by SIGSEGV");
}

TEST(Process, EnvironmentAndWorkingFolder) {
  setenv("OPFORGE_TEST_OUTER", "outer", 1);
  auto spec = shell("echo \"$OPFORGE_TEST_OUTER $OPFORGE_TEST_INNER\"; pwd");
  spec.environment = {{"OPFORGE_TEST_INNER", "inner"}};
  spec.working_dir = "/";
  EXPECT_EQ(run_process(spec).value().output, "outer inner\n/\n");
  spec.clear_environment = true;
  EXPECT_EQ(run_process(spec).value().output, " inner\n/\n");
  spec.clear_environment = false;
  spec.environment["OPFORGE_TEST_OUTER"] = "replaced";
  EXPECT_EQ(run_process(spec).value().output, "replaced inner\n/\n");
  unsetenv("OPFORGE_TEST_OUTER");
}

TEST(Process, AProgramThatDoesNotExistIsAnError) {
  ProcessSpec spec;
  spec.argv = {"opforge-no-such-program"};
  const auto result = run_process(spec);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_NE(result.error().message.find("opforge-no-such-program"), std::string::npos);
  EXPECT_EQ(run_process(ProcessSpec{}).error().code, Code::kInvalidArgument);
}

TEST(Process, DeadlineKillsTheWholeGroup) {
  // The shell ignores polite signals and has a grandchild that holds the pipes.
  const auto result = run_shell("trap '' TERM INT HUP; sleep 60 & echo $!; wait", 0.3);
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
  EXPECT_LT(result.wall_s, 5);
  EXPECT_NE(result.describe().find("past its limit"), std::string::npos);
  const pid_t grandchild = std::atoi(result.output.c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(is_gone(grandchild));
}

TEST(Process, GrandchildThatKeepsThePipesOpenDoesNotHoldUsUp) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run_shell("sleep 60 & echo $!");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(is_gone(std::atoi(result.output.c_str())));
}

TEST(Process, EndlessOutputStillMeetsTheDeadline) {
  const auto result = run_shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", 0.3);
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
}

// Each program holds a string of 2^27 bytes; the watched limit covers members of the group, not
// only its leader.
constexpr char kEat[] =
    "x=xxxxxxxx; i=0; while [ $i -lt 24 ]; do x=$x$x; i=$((i+1)); done; sleep 30";

TEST(Process, MemoryIsWatched) {
  auto spec = shell(kEat);
  spec.memory_limit_bytes = 64 << 20;
  spec.time_limit_s = 20;
  const auto result = run_process(spec).value();
  EXPECT_EQ(result.end, ProcessEnd::kOutOfMemory) << result.describe();
  EXPECT_NE(result.describe().find("memory"), std::string::npos);
}

TEST(Process, MemoryOfChildrenIsWatched) {
  auto spec = shell(std::string("(") + kEat + ") & wait");
  spec.memory_limit_bytes = 64 << 20;
  spec.time_limit_s = 20;
  EXPECT_EQ(run_process(spec).value().end, ProcessEnd::kOutOfMemory);
}

TEST(Process, Cancelled) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run_process(shell("sleep 60"),
                                  [&] { return std::chrono::steady_clock::now() - start > 50ms; });
  EXPECT_EQ(result->end, ProcessEnd::kCancelled);
}

TEST(Worker, AnswersLineByLine) {
  auto worker = Worker::start(shell("while read line; do echo \"got $line\"; done")).value();
  for (int i = 0; i < 20; ++i) {
    const auto answer = worker.ask("q" + std::to_string(i), 10, 0);
    ASSERT_TRUE(answer.line);
    EXPECT_EQ(*answer.line, "got q" + std::to_string(i));
  }
  EXPECT_TRUE(worker.alive());
}

TEST(Worker, LongLines) {
  auto worker = Worker::start(shell("cat")).value();
  const std::string line(2 << 20, 'z');
  EXPECT_EQ(worker.ask(line, 10, 0).line, line);
}

TEST(Worker, WhatWasPrintedBeforeTheQuestionIsNotItsAnswer) {
  auto worker =
      Worker::start(shell("echo noise; read a; echo first; echo extra; read b; echo second"))
          .value();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(worker.ask("1", 10, 0).line, "first");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(worker.ask("2", 10, 0).line, "second");
}

TEST(Worker, Crash) {
  auto worker = Worker::start(shell("read line; echo words >&2; kill -ABRT $$")).value();
  const auto answer = worker.ask("go", 10, 0);
  EXPECT_FALSE(answer.line);
  EXPECT_EQ(answer.result.end, ProcessEnd::kSignalled);
  EXPECT_EQ(answer.result.signal, SIGABRT);
  EXPECT_EQ(answer.result.errors, "words\n");
  EXPECT_FALSE(worker.alive());
  EXPECT_EQ(worker.ask("again", 10, 0).result.signal, SIGABRT);  // stays dead, without SIGPIPE here
}

TEST(Worker, ExitsZeroWithoutAnAnswer) {
  auto worker = Worker::start(shell("read line; printf half; exit 0")).value();
  const auto answer = worker.ask("go", 10, 0);
  EXPECT_FALSE(answer.line);
  EXPECT_EQ(answer.result.end, ProcessEnd::kExited);
  EXPECT_EQ(answer.result.exit_code, 0);
  EXPECT_EQ(answer.result.output, "half");
}

TEST(Worker, ThatEndedBeforeTheQuestion) {
  auto worker = Worker::start(shell("exit 4")).value();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(worker.ask(std::string(1 << 20, 'q'), 10, 0).result.exit_code, 4);
}

TEST(Worker, AnswersAndExitsAtOnce) {
  auto worker = Worker::start(shell("read line; echo last; exit 0")).value();
  EXPECT_EQ(worker.ask("go", 10, 0).line, "last");
}

TEST(Worker, HangIsKilledWithItsGroup) {
  auto worker = Worker::start(shell("read line; sleep 60 & echo $! >&2; wait")).value();
  const auto answer = worker.ask("go", 0.3, 0);
  EXPECT_FALSE(answer.line);
  EXPECT_EQ(answer.result.end, ProcessEnd::kTimedOut);
  EXPECT_TRUE(is_gone(std::atoi(answer.result.errors.c_str())));
  EXPECT_FALSE(worker.alive());
}

TEST(Worker, MemoryEater) {
  auto worker = Worker::start(shell(std::string("read line; ") + kEat)).value();
  EXPECT_EQ(worker.ask("go", 20, 64 << 20).result.end, ProcessEnd::kOutOfMemory);
}

TEST(Worker, CancelledWhileAsked) {
  auto worker = Worker::start(shell("read line; sleep 60")).value();
  EXPECT_EQ(worker.ask("go", 10, 0, [] { return true; }).result.end, ProcessEnd::kCancelled);
}

TEST(Worker, DestructionKillsTheGroup) {
  pid_t pid;
  {
    auto worker = Worker::start(shell("while :; do sleep 1; done")).value();
    pid = worker.pid();
    auto moved = std::move(worker);
    EXPECT_EQ(moved.pid(), pid);
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(Interrupt, IsNoticedOnceTheHandlerIsInstalled) {
  EXPECT_FALSE(interrupted());
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        raise(SIGINT);
        _exit(interrupted() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        raise(SIGTERM);
        raise(SIGTERM);  // the second one ends the process
        _exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace opforge
