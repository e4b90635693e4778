// The C++ headers over the C functions.
#include <gtest/gtest.h>

#include <fstream>
#include <opforge/opforge.hpp>

namespace {

std::string pack() { return std::string(OPFORGE_TEST_PACKS) + "/signed.ofpack"; }

opforge::PackOptions trusting() {
  opforge::PackOptions options;
  options.trusted_keys = {std::string(OPFORGE_TEST_PACKS) + "/key.pub"};
  options.only_named_keys = true;
  return options;
}

TEST(CppHeaders, FromPackToResult) {
  auto context = opforge::Context::create();
  ASSERT_TRUE(context) << context.error().message;
  auto opened = context->open(pack(), trusting());
  ASSERT_TRUE(opened) << opened.error().message;
  std::vector<float> x(24, 3.0f), y(24, 0.0f);
  opforge::Tensor tx(x.data(), opforge::float32(), {2, 3, 4}),
      ty(y.data(), opforge::float32(), {2, 3, 4});
  ASSERT_TRUE(context->call("test.scale", {tx.dl(), ty.dl()}, {{"alpha", 0.5}}));
  EXPECT_EQ(y, std::vector<float>(24, 1.5f));

  auto plan = context->prepare("test.scratch", {tx.dl(), ty.dl()});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->workspace_bytes(), 24u);
  std::vector<char> memory(plan->workspace_bytes() + plan->workspace_align());
  void* workspace = memory.data();
  std::size_t space = memory.size();
  ASSERT_NE(std::align(plan->workspace_align(), plan->workspace_bytes(), workspace, space),
            nullptr);
  opforge::Plan moved = std::move(*plan);
  ASSERT_TRUE(moved.execute({x.data(), y.data()}, workspace));
  EXPECT_EQ(y, std::vector<float>(24, 6.0f));
  EXPECT_STREQ(moved.info().kernel, "test.scratch.cpu");

  const auto names = context->operators();
  ASSERT_TRUE(names);
  EXPECT_EQ(*names, (std::vector<std::string>{"test.scale", "test.scratch"}));
  const auto info = context->describe("test.scale");
  ASSERT_TRUE(info);
  EXPECT_EQ((*info)->tensor_count, 2u);
  const auto why = context->explain_json("test.scale", {tx.dl(), ty.dl()});
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("test.scale.cpu"), std::string::npos);
  EXPECT_EQ(context->choices_digest().value().size(), 64u);
}

TEST(CppHeaders, ErrorsAreValues) {
  auto context = opforge::Context::create();
  ASSERT_TRUE(context);
  const auto absent = context->open("/no/such.ofpack", trusting());
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().status, OPFORGE_NOT_FOUND);
  EXPECT_NE(absent.error().message.find("/no/such.ofpack"), std::string::npos);
  const auto backend = opforge::Context::create("no such backend");
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().status, OPFORGE_NOT_FOUND);
  ASSERT_TRUE(context->open(pack(), trusting()));
  std::vector<float> x(4), y(4);
  opforge::Tensor tx(x.data(), opforge::float32(), {2, 2}, {}, {kDLCUDA, 99}),
      ty(y.data(), opforge::float32(), {2, 2}, {}, {kDLCUDA, 99});
  const auto away = context->call("test.scale", {tx.dl(), ty.dl()});
  EXPECT_TRUE(away.unavailable());
}

}  // namespace
