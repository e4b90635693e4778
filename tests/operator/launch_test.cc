#include "operator/launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "operator/kernel.hpp"

namespace opforge {
namespace {

TEST(Launch, ParameterSizes) {
  const std::pair<ParamType, std::size_t> rows[] = {
      {ParamType::kPtr, 8}, {ParamType::kI8, 1},    {ParamType::kI32, 4},
      {ParamType::kI64, 8}, {ParamType::kU32, 4},   {ParamType::kU64, 8},
      {ParamType::kF16, 2}, {ParamType::kBF16, 2},  {ParamType::kF32, 4},
      {ParamType::kF64, 8}, {ParamType::kBytes, 0}, {ParamType::kTensorMap, 128}};
  for (const auto& [type, size] : rows)
    EXPECT_EQ(param_size_bytes(type), size) << param_type_name(type);
  EXPECT_EQ(param_type_name(ParamType::kBF16), "bf16");
  EXPECT_EQ(param_type_name(ParamType::kTensorMap), "tensor_map");
}

TEST(Launch, ValuesThatFit) {
  using I = std::int64_t;
  const std::pair<ParamType, Value> fits[] = {
      {ParamType::kI8, I{-128}},        {ParamType::kI8, I{127}},
      {ParamType::kI32, I{2147483647}}, {ParamType::kI32, I{-2147483648}},
      {ParamType::kU32, I{4294967295}}, {ParamType::kU64, INT64_MAX},
      {ParamType::kI64, INT64_MIN},     {ParamType::kF32, I{3}},
      {ParamType::kF16, 65504.0},       {ParamType::kBF16, 3.3895e38},
      {ParamType::kF32, 3.4028235e38},  {ParamType::kF64, 1e308},
      {ParamType::kF32, HUGE_VAL},      {ParamType::kF16, std::nan("")}};
  for (const auto& [type, value] : fits)
    EXPECT_TRUE(check_fits(type, value)) << param_type_name(type) << " " << to_string(value);
  const std::pair<ParamType, Value> refused[] = {{ParamType::kI8, I{128}},
                                                 {ParamType::kI8, I{-129}},
                                                 {ParamType::kI32, I{2147483648}},
                                                 {ParamType::kU32, I{-1}},
                                                 {ParamType::kU32, I{4294967296}},
                                                 {ParamType::kU64, I{-1}},
                                                 {ParamType::kI32, 1.0},
                                                 {ParamType::kF16, 65520.0},
                                                 {ParamType::kBF16, 3.4e38},
                                                 {ParamType::kF32, 3.5e38},
                                                 {ParamType::kI32, std::string("1")},
                                                 {ParamType::kPtr, I{0}}};
  for (const auto& [type, value] : refused) {
    const Status status = check_fits(type, value);
    ASSERT_FALSE(status) << param_type_name(type) << " " << to_string(value);
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find(param_type_name(type)), std::string::npos);
  }
}

TEST(Launch, PointerValues) {
  using Base = PointerValue::Base;
  EXPECT_EQ(parse_pointer("null")->base, Base::kNull);
  EXPECT_EQ(parse_pointer(" workspace ")->base, Base::kWorkspace);
  const auto moved = parse_pointer("x + N * 4 + 1");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->base, Base::kTensor);
  EXPECT_EQ(moved->tensor, "x");
  EXPECT_EQ(*moved->add_bytes.evaluate_int(lookup_in({{"N", std::int64_t{3}}})), 13);
  EXPECT_EQ(*parse_pointer("x")->add_bytes.evaluate_int({}), 0);
  for (const char* bad : {"", "+ 4", "x - 4", "4", "x.data", "null + 1", "x +", "x + (", "x y"}) {
    const auto value = parse_pointer(bad);
    ASSERT_FALSE(value) << bad;
    EXPECT_EQ(value.error().code, Code::kInvalidDeclaration);
  }
}

TEST(Launch, VisitsEveryExpressionWithItsPlace) {
  LaunchRecord record;
  LaunchStep kernel;
  kernel.grid = {"g0", "", "g2"};
  kernel.block = {"b0", "", ""};
  kernel.cluster = {"c0", "", ""};
  kernel.shared_bytes = "sh";
  kernel.bindings = {
      {.name = "p", .value = "x"},
      {.name = "i", .type = ParamType::kU64, .value = "i"},
      {.name = "f", .type = ParamType::kBF16, .value = "f"},
      {.name = "s",
       .type = ParamType::kBytes,
       .fields = {{0, ParamType::kPtr, "y"}, {8, ParamType::kF64, "d"}},
       .size_bytes = 16},
      {.name = "m",
       .type = ParamType::kTensorMap,
       .tensor_map = {.base = "x", .dims = {"n"}, .box = {"bx"}, .element_strides = {"e"}}}};
  LaunchStep set{.kind = StepKind::kMemset,
                 .memset_target = "workspace",
                 .memset_bytes = "mb",
                 .memset_value = "mv"};
  record.steps = {kernel, set};
  record.workspace_bytes = "ws";
  record.guards = {{"gu", "why"}};
  std::vector<std::string> seen;
  ASSERT_TRUE(visit_expressions(
      record, [&](ExprPlace place, const std::string& text, const std::string& where) -> Status {
        EXPECT_FALSE(where.empty());
        seen.push_back(std::to_string(static_cast<int>(place)) + ":" + text);
        return {};
      }));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"0:g0", "0:g2", "1:b0", "1:c0", "1:sh", "2:workspace",
                                            "2:x", "2:x", "2:y", "3:i", "4:d", "4:f", "5:bx", "5:e",
                                            "5:n", "6:mb", "6:mv", "7:ws", "8:gu"}));
  int calls = 0;
  const Status stopped =
      visit_expressions(record, [&](ExprPlace, const std::string&, const std::string&) -> Status {
        return ++calls == 3 ? Status(fail(Code::kInternal, "stop")) : Status{};
      });
  EXPECT_FALSE(stopped);
  EXPECT_EQ(calls, 3);
}

TEST(Kernel, InitialValuesAreClampedToTheNearestListed) {
  const std::vector<std::int64_t> values{32, 64, 256};
  const std::pair<std::int64_t, std::int64_t> rows[] = {
      {0, 32},    {32, 32},     {48, 32},        {49, 64},        {160, 64},
      {161, 256}, {10000, 256}, {INT64_MIN, 32}, {INT64_MAX, 256}};
  for (const auto& [wanted, expected] : rows)
    EXPECT_EQ(nearest_listed(values, wanted), expected) << wanted;
  EXPECT_EQ(nearest_listed(std::vector<std::int64_t>{INT64_MIN, INT64_MAX}, 0), INT64_MAX);
  const ValueMap dims{{"N", std::int64_t{100}}};
  EXPECT_EQ(*initial_value({.name = "T", .values = values, .initial = "N"}, lookup_in(dims)), 64);
  EXPECT_EQ(*initial_value({.name = "T", .values = values}, lookup_in(dims)), 32);
  EXPECT_FALSE(
      initial_value({.name = "T", .values = values, .initial = "N / 0.5"}, lookup_in(dims)));
  EXPECT_FALSE(initial_value({.name = "T", .values = values, .initial = "Q"}, lookup_in(dims)));
  EXPECT_FALSE(initial_value({.name = "T", .values = {}, .initial = "N"}, lookup_in(dims)));
}

}  // namespace
}  // namespace opforge
