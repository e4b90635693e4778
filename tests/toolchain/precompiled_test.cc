#include "toolchain/precompiled.hpp"

#include <thread>
#include <vector>

#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

TEST(Precompiled, IsMadeOnceForTheThirdAskerAndKept) {
  int made = 0;
  const auto make = [&](const Path& folder) -> Status {
    made++;
    test::put(folder / "result", "headers");
    return {};
  };
  EXPECT_FALSE(precompiled("a", make));
  EXPECT_FALSE(precompiled("a", make));
  EXPECT_EQ(made, 0);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      const auto folder = precompiled("a", make);
      ASSERT_TRUE(folder);
      EXPECT_EQ(*read_file(*folder / "result"), "headers");
    });
  }
  threads.clear();
  EXPECT_EQ(made, 1);
  EXPECT_FALSE(precompiled("b", make)) << "another key";
}

TEST(Precompiled, AFailureIsNotTriedAgain) {
  int tried = 0;
  const auto make = [&](const Path&) -> Status {
    tried++;
    return fail(Code::kToolchain, "no");
  };
  for (int i = 0; i < 5; i++) EXPECT_FALSE(precompiled("failing", make));
  EXPECT_EQ(tried, 1);
}

}  // namespace
}  // namespace opforge
