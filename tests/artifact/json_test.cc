#include <gtest/gtest.h>

#include "artifact/pack.hpp"
#include "artifact/store.hpp"
#include "fixtures/launch_fixtures.hpp"

namespace opforge {
namespace {

// The parameter sizes that the four compilers report (probe metadata), and that our records must
// add up to.
TEST(LaunchFixtures, LoadAndHaveTheSizesThatTheCompilersReport) {
  const std::map<std::string, std::vector<std::size_t>> sizes = {
      {"triton_matmul_hostdesc", {128, 4, 4, 8, 8, 128, 4, 4, 8, 8, 128, 4, 4, 8, 8, 4, 8, 8}},
      {"tilelang_gemm", {128, 128, 8, 4}},
      {"cutedsl_rms_f32", {24, 16, 24, 4}},
      {"cutile_softmax", {8, 4, 4, 4, 4, 8, 4, 4, 4, 4}}};
  for (const auto& fixture : fixtures::all_launch_fixtures()) {
    SCOPED_TRACE(fixture.name);
    ASSERT_EQ(fixture.record.steps.size(), fixture.steps.size());
    for (std::size_t i = 0; i < fixture.steps.size(); ++i) {
      const auto& bindings = fixture.record.steps[i].bindings;
      const auto& params = fixture.steps[i].params;
      ASSERT_EQ(bindings.size(), params.size());
      for (std::size_t k = 0; k < params.size(); ++k) {
        EXPECT_EQ(bindings[k].name, params[k].name);
        const std::size_t size = bindings[k].type == ParamType::kBytes
                                     ? bindings[k].size_bytes
                                     : param_size_bytes(bindings[k].type);
        EXPECT_EQ(size, params[k].bytes.size()) << params[k].name;
        if (auto known = sizes.find(fixture.name); known != sizes.end()) {
          ASSERT_EQ(known->second.size(), params.size());
          EXPECT_EQ(size, known->second[k]) << params[k].name;
        }
      }
    }
  }
}

TEST(LaunchFixtures, CallsBind) {
  for (const auto& fixture : fixtures::all_launch_fixtures()) {
    auto call = bind_call(fixture.signature, fixture.tensors, fixture.attributes);
    EXPECT_TRUE(call) << fixture.name << ": " << call.error().message;
  }
}

TEST(LaunchJson, RoundTripKeepsEverything) {
  for (const auto& fixture : fixtures::all_launch_fixtures()) {
    SCOPED_TRACE(fixture.name);
    auto json = launch_to_json(fixture.record);
    ASSERT_TRUE(json) << json.error().message;
    auto again = launch_from_json(*json);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*launch_to_json(*again), *json);
    ASSERT_EQ(again->steps.size(), fixture.record.steps.size());
    for (std::size_t i = 0; i < again->steps.size(); ++i) {
      const auto &a = again->steps[i], &b = fixture.record.steps[i];
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.entry, b.entry);
      EXPECT_EQ(a.grid, b.grid);
      EXPECT_EQ(a.block, b.block);
      EXPECT_EQ(a.cluster, b.cluster);
      EXPECT_EQ(a.shared_bytes, b.shared_bytes);
      EXPECT_EQ(a.cooperative, b.cooperative);
      EXPECT_EQ(a.programmatic, b.programmatic);
      EXPECT_EQ(a.memset_target, b.memset_target);
      EXPECT_EQ(a.memset_bytes, b.memset_bytes);
      EXPECT_EQ(a.memset_value, b.memset_value);
      ASSERT_EQ(a.bindings.size(), b.bindings.size());
      for (std::size_t k = 0; k < a.bindings.size(); ++k) {
        const auto &p = a.bindings[k], &q = b.bindings[k];
        EXPECT_EQ(p.name, q.name);
        EXPECT_EQ(p.type, q.type);
        EXPECT_EQ(p.value, q.value);
        EXPECT_EQ(p.size_bytes, q.size_bytes);
        ASSERT_EQ(p.fields.size(), q.fields.size());
        for (std::size_t n = 0; n < p.fields.size(); ++n) {
          EXPECT_EQ(p.fields[n].offset_bytes, q.fields[n].offset_bytes);
          EXPECT_EQ(p.fields[n].type, q.fields[n].type);
          EXPECT_EQ(p.fields[n].value, q.fields[n].value);
        }
        EXPECT_EQ(p.tensor_map.base, q.tensor_map.base);
        EXPECT_EQ(p.tensor_map.dims, q.tensor_map.dims);
        EXPECT_EQ(p.tensor_map.strides, q.tensor_map.strides);
        EXPECT_EQ(p.tensor_map.box, q.tensor_map.box);
        EXPECT_EQ(p.tensor_map.swizzle, q.tensor_map.swizzle);
        EXPECT_EQ(p.tensor_map.l2_promotion, q.tensor_map.l2_promotion);
      }
    }
    EXPECT_EQ(again->workspace_bytes, fixture.record.workspace_bytes);
    EXPECT_EQ(again->workspace_align, fixture.record.workspace_align);
    ASSERT_EQ(again->guards.size(), fixture.record.guards.size());
    for (std::size_t i = 0; i < again->guards.size(); ++i) {
      EXPECT_EQ(again->guards[i].expr, fixture.record.guards[i].expr);
      EXPECT_EQ(again->guards[i].reason, fixture.record.guards[i].reason);
    }
  }
}

struct BadJson {
  const char* text;
  const char* message;
};
TEST(LaunchJson, BadTextIsCorruptAndSaysWhy) {
  const BadJson cases[] = {
      {"", "launch record"},
      {"{", "launch record"},
      {"[]", "launch record"},
      {"{} trailing", "launch record"},
      {"table T { x:int; }", "launch record"},
      {"include \"/etc/passwd\";", "launch record"},
      {R"({"stepz": []})", "stepz"},
      {R"({"steps": [{"kind": "dance"}]})", "dance"},
      {R"({"steps": [{"grid": ["1","1","1","1"]}]})", "at most 3"},
      {R"({"steps": [{"bindings": [{"name": "x", "type": 77}]}]})", "unknown value 77"},
      {R"({"steps": [{"bindings": [{"name": "x", "type": "tensor_map"}]}]})", "tensor map"},
      {R"({"steps": [{"bindings": [{"name": "x", "type": "ptr", "tensor_map": {"base": "x", "element": "f16"}}]}]})",
       "tensor map"},
      {R"({"steps": [{"bindings": [{"name": "x", "type": "tensor_map", "tensor_map": {"base": "x", "element": "f17"}}]}]})",
       "f17"},
      {R"({"guards": [{"reason": "no expression"}]})", "expr"},
  };
  for (const auto& bad : cases) {
    auto record = launch_from_json(bad.text);
    ASSERT_FALSE(record) << bad.text;
    EXPECT_EQ(record.error().code, Code::kCorrupt) << bad.text;
    EXPECT_NE(record.error().message.find(bad.message), std::string::npos)
        << bad.text << " -> " << record.error().message;
  }
  EXPECT_FALSE(launch_from_json(std::string_view("{\0}", 3)));
  EXPECT_FALSE(launch_from_json(std::string(100000, '[')));
}

}  // namespace
}  // namespace opforge
