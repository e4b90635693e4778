// Workers of DSL compilers, with stand-in scripts: what a DSL may do to its process, and what the
// caller is told.
#include "toolchain/dsl_worker.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "toolchain/dsl_fixture.hpp"

namespace opforge::test {
namespace {

constexpr std::string_view kEcho = R"(
from opforge_worker import Refused
VERSION = "1.2"
def compile(job, module):
    return {"value": module.VALUE, "job": job}, {"code": bytes(range(256))}
)";

class DslWorker : public testing::Test {
 protected:
  void SetUp() override {
    OPFORGE_NEED_PYTHON();
    develop();
  }
  DslWorkerSpec spec(std::string_view script) {
    put(folder_ / "worker.py", script);
    DslWorkerSpec spec;
    spec.dsl = "toy";
    spec.python = system_python();
    spec.script = folder_ / "worker.py";
    spec.most = 1;
    return spec;
  }
  static SourceSet sources(const std::string& text = "VALUE = 7\n") {
    SourceSet set;
    set.files = {{"kernel.py", text}};
    return set;
  }
  static Result<DslAnswer> ask(DslWorkers& workers, const SourceSet& set = sources(),
                               nlohmann::json job = nlohmann::json::object()) {
    job["source"] = "kernel.py";
    return workers.ask(std::move(job), set, "a kernel");
  }
  static void expect_error(const Result<DslAnswer>& answer, std::string_view part) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kToolchain);
    EXPECT_NE(answer.error().message.find(part), std::string::npos) << answer.error().message;
  }
  Folder folder_;
};

TEST_F(DslWorker, AnswersWithValuesAndBytes) {
  DslWorkers workers(spec(kEcho));
  const auto answer = ask(workers, sources(), {{"option", 3}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->values["value"], 7);
  EXPECT_EQ(answer->values["job"]["option"], 3);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(answer->blobs.at("code"), all);
  ASSERT_TRUE(ask(workers));
  EXPECT_EQ(workers.started(), 1u);
}

TEST_F(DslWorker, WorkersRunBesideEachOtherAndNoMoreThanAllowed) {
  DslWorkerSpec two = spec(R"(
import os, time
VERSION = "1"
def compile(job, module):
    time.sleep(0.2)
    return {"pid": os.getpid()}, {}
)");
  two.most = 2;
  DslWorkers workers(two);
  std::vector<std::jthread> threads;
  std::mutex mutex;
  std::set<int> pids;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const auto answer = ask(workers);
      const std::lock_guard lock(mutex);
      if (answer) pids.insert(answer->values["pid"].get<int>());
    });
  }
  threads.clear();
  EXPECT_EQ(pids.size(), 2u);
  EXPECT_EQ(workers.started(), 2u);
}

TEST_F(DslWorker, PrintsGoToStandardErrorAndNeverIntoAnswers) {
  DslWorkers workers(spec(R"(
import os, sys
print("imported")
os.write(1, b"raw\n")
VERSION = "1"
def compile(job, module):
    print('{"id": 2, "ok": false}')
    os.write(1, b'{"id": 2, "ok": false}\n')
    os.system("echo from a child")
    sys.stdout.flush()
    return {"value": module.VALUE}, {}
)"));
  for (int i = 0; i < 3; ++i) {
    const auto answer = ask(workers);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->values["value"], 7);
  }
  EXPECT_EQ(workers.started(), 1u);
}

TEST_F(DslWorker, LinesBetweenAnswersArePassedOver) {
  DslWorkers workers(spec(R"(
import sys
VERSION = "1"
def compile(job, module):
    out = sys.modules["opforge_worker"]._answers
    out.write("not an answer\n[1, 2]\n{\"id\": 99}\n")
    return {"value": module.VALUE}, {}
)"));
  const auto answer = ask(workers);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->values["value"], 7);
}

TEST_F(DslWorker, AbortIsNamedAndTheWorkerReplaced) {
  DslWorkers workers(spec(R"(
import os, sys
VERSION = "1"
def compile(job, module):
    if job.get("die"):
        sys.stderr.write("LLVM ERROR: no such feature\n")
        sys.stderr.flush()
        os.abort()
    return {"value": module.VALUE}, {}
)"));
  ASSERT_TRUE(ask(workers));
  const auto answer = ask(workers, sources(), {{"die", true}});
  expect_error(answer, "SIGABRT");
  expect_error(answer, "LLVM ERROR: no such feature");
  expect_error(answer, "a kernel: toy");
  ASSERT_TRUE(ask(workers));
  EXPECT_EQ(workers.started(), 2u);
}

TEST_F(DslWorker, HangIsKilledWithItsChildren) {
  DslWorkerSpec hang = spec(R"(
import subprocess, time
VERSION = "1"
def compile(job, module):
    if job.get("hang"):
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)
    return {}, {}
)");
  hang.time_limit_s = 0.5;
  DslWorkers workers(hang);
  expect_error(ask(workers, sources(), {{"hang", true}}), "ran past its limit");
  EXPECT_TRUE(ask(workers));
}

TEST_F(DslWorker, GrowthIsStopped) {
  DslWorkerSpec grow = spec(R"(
import time
VERSION = "1"
def compile(job, module):
    kept = bytearray(400 << 20)
    time.sleep(5)
    return {"size": len(kept)}, {}
)");
  grow.memory_limit_bytes = 200 << 20;
  DslWorkers workers(grow);
  expect_error(ask(workers), "memory limit");
}

TEST_F(DslWorker, ExceptionsAreAnswersWithTheLineOfTheKernelsFile) {
  DslWorkers workers(spec(R"(
import os, sys
VERSION = "1"
def compile(job, module):
    if job["how"] == "exit": sys.exit(3)
    if job["how"] == "gone": os._exit(3)
    if job["how"] == "kernel": module.work()
    from opforge_worker import Refused
    raise Refused("num_warps=3: a power of two")
)"));
  const SourceSet set =
      sources("VALUE = 7\n\ndef work():\n    raise ValueError('no such block')\n");
  const auto kernel = ask(workers, set, {{"how", "kernel"}});
  expect_error(kernel, "kernel.py:4: ValueError: no such block");
  EXPECT_EQ(kernel.error().message.find("/sources/"), std::string::npos);
  expect_error(ask(workers, set, {{"how", "refuse"}}), "a kernel: num_warps=3: a power of two");
  expect_error(ask(workers, set, {{"how", "exit"}}), "SystemExit: 3");
  EXPECT_EQ(workers.started(), 1u);
  expect_error(ask(workers, set, {{"how", "gone"}}), "exited with 3");
  expect_error(ask(workers, sources("def f(:\n"), {{"how", "kernel"}}), "kernel.py:1");
  expect_error(ask(workers, sources("import no_such_module\n"), {{"how", "kernel"}}),
               "no_such_module");
}

// The helper that another operator calls by the same name, and one that changed, are other files.
TEST_F(DslWorker, HelpersOfOneNameAreNotMixedUp) {
  DslWorkers workers(spec(kEcho));
  for (const int value : {1, 2, 1, 3}) {
    SourceSet set;
    set.files = {{"helper.py", "NUMBER = " + std::to_string(value) + "\n"},
                 {"kernel.py", "import helper\nVALUE = helper.NUMBER\n"}};
    const auto answer = ask(workers, set);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->values["value"], value);
  }
  EXPECT_EQ(workers.started(), 1u);
}

TEST_F(DslWorker, NothingOfTheCallersEnvironmentReachesIt) {
  const Setting path("PYTHONPATH", "/nowhere"), startup("PYTHONSTARTUP", "/nowhere"),
      cache("TOY_CACHE", "/nowhere");
  DslWorkerSpec plain = spec(R"(
import os
VERSION = "1"
def compile(job, module):
    return dict(os.environ), {}
)");
  plain.environment = {{"TOY_CACHE_DIR", "{folder}/cache"}};
  DslWorkers workers(plain);
  const auto answer = ask(workers);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_FALSE(answer->values.contains("PYTHONPATH"));
  EXPECT_FALSE(answer->values.contains("TOY_CACHE"));
  EXPECT_EQ(answer->values["TOY_CACHE_DIR"], answer->values["HOME"].get<std::string>() + "/cache");
}

TEST_F(DslWorker, WhatDoesNotStartSaysWhy) {
  DslWorkers broken(spec("import no_such_dsl\n"));
  expect_error(ask(broken), "No module named 'no_such_dsl'");
  DslWorkerSpec other = spec(kEcho);
  other.version = "1.3";
  DslWorkers old(other);
  expect_error(ask(old), "says toy 1.3, the worker loaded 1.2");
  DslWorkerSpec absent = spec(kEcho);
  absent.python = folder_ / "python3";
  DslWorkers none(absent);
  expect_error(ask(none), "cannot start the toy worker");
  const Setting full("TMPDIR", "/proc");
  DslWorkers nowhere(spec(kEcho));
  expect_error(ask(nowhere), "set TMPDIR to a writable one");
}

// No DSL ever starts by surprise: not in production mode, not in a sealed process.
TEST(DslWorkerMode, NothingStartsOutsideDevelopmentOrWhenSealed) {
  Folder folder;
  make_venv(folder.path(), "toy", "1");
  DslWorkerSpec spec;
  spec.dsl = "toy";
  spec.python = folder / "bin/python3";
  spec.script = folder / "worker.py";
  const auto refused = [&] {
    DslWorkers workers(spec);
    const auto answer = workers.ask({{"source", "kernel.py"}}, {}, "a kernel");
    return !answer && answer.error().code == Code::kCompilationSealed && workers.started() == 0 &&
           !std::filesystem::exists(folder / "was_started");
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(refused() ? 0 : 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        develop();
        seal();
        std::exit(refused() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace opforge::test
