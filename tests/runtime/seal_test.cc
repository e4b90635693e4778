// The mode belongs to the process and a seal cannot be undone, so each test runs in a child of its
// own.
#include "runtime/seal.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

namespace opforge {
namespace {

// Exits with the number of the first check that failed, 0 when all held.
template <class Body>
void in_child(Body body) {
  EXPECT_EXIT(std::_Exit(body()), testing::ExitedWithCode(0), "");
}

TEST(SealDeathTest, ProductionRefusesToCompileAndSaysHow) {
  in_child([] {
    if (is_development() || is_sealed()) return 1;
    const Status status = may_compile("softmax.cpu@x86-64-v3");
    if (status || status.error().code != Code::kCompilationSealed) return 2;
    const std::string& message = status.error().message;
    if (message.find("softmax.cpu@x86-64-v3") == std::string::npos) return 3;
    if (message.find("production mode") == std::string::npos ||
        message.find("--dev") == std::string::npos)
      return 4;
    return sealed_misses() == std::vector<std::string>{"softmax.cpu@x86-64-v3"} ? 0 : 5;
  });
}

TEST(SealDeathTest, DevelopmentMayCompile) {
  in_child([] {
    develop();
    if (!is_development() || is_sealed()) return 1;
    if (!may_compile("a")) return 2;
    return sealed_misses().empty() ? 0 : 3;
  });
}

TEST(SealDeathTest, SealEndsDevelopmentAndCannotBeUndone) {
  in_child([] {
    develop();
    seal();
    if (!is_sealed() || is_development()) return 1;
    develop();
    if (!is_sealed() || is_development()) return 2;
    const Status status = may_compile("kernel b");
    if (status || status.error().code != Code::kCompilationSealed) return 3;
    if (status.error().message.find("this process is sealed") == std::string::npos) return 4;
    seal();
    return is_sealed() ? 0 : 5;
  });
}

TEST(SealDeathTest, MissesAreListedOnceInOrder) {
  in_child([] {
    seal();
    for (const char* what : {"b", "a", "b", "c", "a"}) (void)may_compile(what);
    return sealed_misses() == std::vector<std::string>{"b", "a", "c"} ? 0 : 1;
  });
}

TEST(SealDeathTest, MissesAreBounded) {
  in_child([] {
    seal();
    for (int i = 0; i < 6000; ++i) (void)may_compile(std::to_string(i));
    return sealed_misses().size() == 4096 ? 0 : 1;
  });
}

// Whatever the order of a develop() and a seal() in two threads, the process is sealed after both.
TEST(SealDeathTest, SealWinsARaceWithDevelop) {
  in_child([] {
    std::jthread first([] { develop(); });
    std::jthread second([] { seal(); });
    first.join();
    second.join();
    return is_sealed() && !may_compile("x") ? 0 : 1;
  });
}

}  // namespace
}  // namespace opforge
