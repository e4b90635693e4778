// The C interface through the shared library, as a user's program sees it.
#include <gtest/gtest.h>
#include <opforge/opforge.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string pack(const char* name) {
  return std::string(OPFORGE_TEST_PACKS) + "/" + name + ".ofpack";
}
std::string key_file() { return std::string(OPFORGE_TEST_PACKS) + "/key.pub"; }
std::string key_hex() {
  std::string key;
  std::ifstream(key_file()) >> key;
  return key;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::string last() { return opforge_last_error(); }

opforge_status open_pack(opforge_context* context, const char* name, const std::string& key) {
  opforge_pack_options options;
  OPFORGE_INIT(options);
  const char* keys[] = {key.c_str()};
  options.trusted_keys = keys;
  options.trusted_key_count = key.empty() ? 0 : 1;
  options.only_named_keys = 1;
  return opforge_pack_open(context, pack(name).c_str(), &options);
}

struct Fixture : testing::Test {
  opforge_context* context = nullptr;
  std::vector<float> x = std::vector<float>(64), y = std::vector<float>(64, -1.0f);
  std::int64_t shape[2] = {4, 8};
  DLTensor tx{}, ty{};
  const DLTensor* tensors[2] = {&tx, &ty};
  void* data[2] = {};

  void SetUp() override {
    ASSERT_EQ(opforge_context_create(nullptr, &context), OPFORGE_OK) << last();
    ASSERT_EQ(open_pack(context, "signed", key_hex()), OPFORGE_OK) << last();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 9;
    tx = DLTensor{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    ty = tx;
    ty.data = y.data();
    data[0] = x.data();
    data[1] = y.data();
  }
  void TearDown() override { EXPECT_EQ(opforge_context_destroy(context), OPFORGE_OK); }
  opforge_status call(const char* op = "test.scale",
                      const opforge_call_options* options = nullptr) {
    return opforge_call(context, op, tensors, 2, nullptr, 0, options);
  }
  // 32 elements of y are `factor` times x, the others untouched.
  void expect_scaled(float factor) {
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i < 32 ? factor * x[i] : -1.0f) << i;
  }
};

using CApi = Fixture;

TEST_F(CApi, CallByName) {
  ASSERT_EQ(call(), OPFORGE_OK) << last();
  expect_scaled(2);
  const opforge_attribute alpha{"alpha", OPFORGE_ATTRIBUTE_FLOAT, 0, -0.5, nullptr};
  ASSERT_EQ(opforge_call(context, "test.scale", tensors, 2, &alpha, 1, nullptr), OPFORGE_OK)
      << last();
  expect_scaled(-0.5f);
}

TEST_F(CApi, OutputsFollowFromInputs) {
  const DLTensor* given[] = {&tx, nullptr};
  opforge_output_info outputs[2];
  ASSERT_EQ(opforge_infer_outputs(context, "test.scale", given, 2, nullptr, 0, outputs), OPFORGE_OK)
      << last();
  EXPECT_EQ(outputs[0].needed, 0);
  EXPECT_EQ(outputs[1].needed, 1);
  ASSERT_EQ(outputs[1].ndim, 2);
  EXPECT_EQ(outputs[1].shape[0], 4);
  EXPECT_EQ(outputs[1].shape[1], 8);
  EXPECT_EQ(outputs[1].dtype.code, kDLFloat);
  EXPECT_EQ(outputs[1].dtype.bits, 32);
  EXPECT_EQ(outputs[1].device.device_type, kDLCPU);
  const DLTensor* none[] = {nullptr, nullptr};
  EXPECT_EQ(opforge_infer_outputs(context, "test.scale", none, 2, nullptr, 0, outputs),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "follow from no given tensor")) << last();
  EXPECT_EQ(opforge_infer_outputs(context, "test.scale", given, 2, nullptr, 0, nullptr),
            OPFORGE_INVALID_ARGUMENT);
}

TEST_F(CApi, CreateWorkspaceExecuteDestroy) {
  opforge_plan* plan = nullptr;
  ASSERT_EQ(opforge_plan_create(context, "test.scratch", tensors, 2, nullptr, 0, nullptr, &plan),
            OPFORGE_OK)
      << last();
  std::size_t bytes = 0, align = 0;
  EXPECT_EQ(opforge_plan_workspace_bytes(plan, &bytes), OPFORGE_OK);
  EXPECT_EQ(opforge_plan_workspace_align(plan, &align), OPFORGE_OK);
  EXPECT_EQ(bytes, 16u);  // a float for each of four rows
  EXPECT_EQ(align, 256u);
  EXPECT_EQ(opforge_plan_execute(plan, data, 2, nullptr, nullptr), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "16 bytes of workspace")) << last();
  alignas(256) char workspace[256];
  ASSERT_EQ(opforge_plan_execute(plan, data, 2, workspace, nullptr), OPFORGE_OK) << last();
  expect_scaled(2);
  const opforge_plan_info* info = nullptr;
  ASSERT_EQ(opforge_plan_describe(plan, &info), OPFORGE_OK);
  EXPECT_STREQ(info->kernel, "test.scratch.cpu");
  EXPECT_STREQ(info->backend, "cpu");
  EXPECT_STREQ(info->device, "cpu:0");
  EXPECT_STREQ(info->grade, "default");
  EXPECT_EQ(info->tier, OPFORGE_FAST);
  EXPECT_EQ(opforge_plan_destroy(plan), OPFORGE_OK);
}

TEST_F(CApi, APlanOutlivesItsContext) {
  opforge_context* other = nullptr;
  ASSERT_EQ(opforge_context_create(nullptr, &other), OPFORGE_OK);
  ASSERT_EQ(open_pack(other, "signed", key_hex()), OPFORGE_OK);
  opforge_plan* plan = nullptr;
  ASSERT_EQ(opforge_plan_create(other, "test.scale", tensors, 2, nullptr, 0, nullptr, &plan),
            OPFORGE_OK);
  ASSERT_EQ(opforge_context_destroy(other), OPFORGE_OK);
  EXPECT_EQ(opforge_plan_execute(plan, data, 2, nullptr, nullptr), OPFORGE_OK);
  expect_scaled(2);
  EXPECT_EQ(opforge_plan_destroy(plan), OPFORGE_OK);
}

TEST_F(CApi, WrongHandlesAreErrors) {
  opforge_plan* plan = nullptr;
  ASSERT_EQ(opforge_plan_create(context, "test.scale", tensors, 2, nullptr, 0, nullptr, &plan),
            OPFORGE_OK);
  std::size_t size = 0;
  EXPECT_EQ(opforge_plan_workspace_bytes(reinterpret_cast<opforge_plan*>(context), &size),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "of another kind")) << last();
  EXPECT_EQ(opforge_plan_workspace_bytes(nullptr, &size), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "the plan is null")) << last();
  EXPECT_EQ(opforge_operator_count(reinterpret_cast<opforge_context*>(plan), &size),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_plan_destroy(plan), OPFORGE_OK);
  EXPECT_EQ(opforge_plan_execute(plan, data, 2, nullptr, nullptr), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "destroyed")) << last();
  EXPECT_EQ(opforge_plan_destroy(plan), OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_plan_destroy(nullptr), OPFORGE_OK);
  EXPECT_EQ(opforge_context_destroy(nullptr), OPFORGE_OK);
}

TEST_F(CApi, NullArgumentsAreErrors) {
  EXPECT_EQ(opforge_context_create(nullptr, nullptr), OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_pack_open(context, nullptr, nullptr), OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_call(context, nullptr, tensors, 2, nullptr, 0, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_call(context, "test.scale", nullptr, 2, nullptr, 0, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_call(context, "test.scale", tensors, 2, nullptr, 1, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_plan_create(context, "test.scale", tensors, 2, nullptr, 0, nullptr, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(opforge_explain_json(context, "test.scale", tensors, 2, nullptr, 0, nullptr, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  const DLTensor* missing[] = {&tx, nullptr};
  EXPECT_EQ(opforge_call(context, "test.scale", missing, 2, nullptr, 0, nullptr),
            OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "y is missing")) << last();
}

TEST_F(CApi, WhatIsWrongWithACallIsNamed) {
  EXPECT_EQ(call("test.scal"), OPFORGE_NOT_FOUND);
  EXPECT_TRUE(has(last(), "test.scale")) << last();
  ty.dtype.code = kDLComplex;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "tensor 1") && has(last(), "code 5")) << last();
  ty = tx;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "overlaps")) << last();
  ty.data = nullptr;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  ty.data = y.data();
  ty.device.device_type = kDLVulkan;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "device type 7")) << last();
  ty = tx;
  ty.data = y.data();
  std::int64_t huge[2] = {std::numeric_limits<std::int64_t>::max(), 8}, negative[2] = {-1, 8};
  tx.shape = ty.shape = huge;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  tx.shape = ty.shape = negative;
  EXPECT_EQ(call(), OPFORGE_INVALID_ARGUMENT);
  EXPECT_EQ(y, std::vector<float>(64, -1.0f));
}

TEST_F(CApi, UnavailableIsAnOutcomeOfItsOwn) {
  opforge_call_options options;
  OPFORGE_INIT(options);
  options.precondition = [](void* user, const DLTensor* const* given, std::size_t count,
                            const char** reason) {
    *reason = "the cat is on the keyboard";
    return count == 2 && given[0]->ndim == 2 && *static_cast<int*>(user) == 7 ? 0 : 1;
  };
  int seven = 7;
  options.precondition_user = &seven;
  EXPECT_EQ(call("test.scale", &options), OPFORGE_UNAVAILABLE);
  EXPECT_EQ(last(), "the cat is on the keyboard");
  seven = 8;
  EXPECT_EQ(call("test.scale", &options), OPFORGE_OK);
  tx.device = ty.device = {kDLCUDA, 63};
  EXPECT_EQ(call(), OPFORGE_UNAVAILABLE);
}

TEST_F(CApi, ZeroSizeAndLeadingDims) {
  std::int64_t empty[3] = {0, 4, 8};
  tx.shape = ty.shape = empty;
  tx.ndim = ty.ndim = 3;
  tx.data = ty.data = nullptr;
  EXPECT_EQ(call(), OPFORGE_OK) << last();
  std::int64_t cube[3] = {2, 2, 8};
  tx.shape = ty.shape = cube;
  tx.data = x.data();
  ty.data = y.data();
  ASSERT_EQ(call(), OPFORGE_OK) << last();
  expect_scaled(2);
}

TEST_F(CApi, ByteOffsetAndStrides) {
  std::int64_t strides[2] = {8, 1};
  tx.strides = strides;
  tx.byte_offset = 8 * sizeof(float);
  ASSERT_EQ(call(), OPFORGE_OK) << last();
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], 2 * x[i + 8]);
  strides[0] = 16;  // no kernel of the pack takes this
  tx.byte_offset = 0;
  EXPECT_EQ(call(), OPFORGE_COMPILATION_SEALED);
  EXPECT_TRUE(has(last(), "x and y must be contiguous")) << last();
}

TEST_F(CApi, OptionsAreChecked) {
  opforge_call_options options = {};
  EXPECT_EQ(call("test.scale", &options), OPFORGE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(last(), "struct_size")) << last();
  OPFORGE_INIT(options);
  options.contract = OPFORGE_DETERMINISTIC;
  EXPECT_EQ(call("test.scale", &options), OPFORGE_CONTRACT_UNSATISFIED);
  options.contract = static_cast<opforge_contract>(9);
  EXPECT_EQ(call("test.scale", &options), OPFORGE_INVALID_ARGUMENT);
  OPFORGE_INIT(options);
  options.backend = "cuda";
  EXPECT_EQ(call("test.scale", &options), OPFORGE_BACKEND_NOT_ELIGIBLE);
  options.backend = "cdua";
  EXPECT_EQ(call("test.scale", &options), OPFORGE_NOT_FOUND);
  EXPECT_TRUE(has(last(), "cuda")) << last();
  // From a program built against a later version: fine while what it adds is zero.
  struct Later {
    opforge_call_options known;
    long added;
  } later = {};
  later.known.struct_size = sizeof later;
  EXPECT_EQ(call("test.scale", &later.known), OPFORGE_OK) << last();
  later.added = 1;
  EXPECT_EQ(call("test.scale", &later.known), OPFORGE_INVALID_ARGUMENT);
}

TEST_F(CApi, ListsWhatIsInThePack) {
  std::size_t count = 0;
  ASSERT_EQ(opforge_operator_count(context, &count), OPFORGE_OK);
  ASSERT_EQ(count, 2u);
  const char* name = nullptr;
  ASSERT_EQ(opforge_operator_name(context, 0, &name), OPFORGE_OK);
  EXPECT_STREQ(name, "test.scale");
  EXPECT_EQ(opforge_operator_name(context, 2, &name), OPFORGE_INVALID_ARGUMENT);
  const opforge_operator* op = nullptr;
  ASSERT_EQ(opforge_operator_find(context, "test.scale", &op), OPFORGE_OK);
  const opforge_operator_info* info = nullptr;
  ASSERT_EQ(opforge_operator_describe(op, &info), OPFORGE_OK);
  ASSERT_EQ(info->tensor_count, 2u);
  EXPECT_STREQ(info->tensors[1].name, "y");
  EXPECT_EQ(info->tensors[1].access, OPFORGE_WRITE);
  ASSERT_EQ(info->tensors[0].dim_count, 2);
  EXPECT_STREQ(info->tensors[0].dims[0], "...M");
  EXPECT_STREQ(info->tensors[0].dtype, "T");
  ASSERT_EQ(info->attribute_count, 1u);
  EXPECT_STREQ(info->attributes[0].name, "alpha");
  EXPECT_EQ(std::strtod(info->attributes[0].default_text, nullptr), 2.0);
  ASSERT_EQ(info->dtype_count, 1u);
  EXPECT_STREQ(info->dtypes[0], "T=f32");
  EXPECT_STREQ(info->formula, "y = alpha * x");
  EXPECT_EQ(info->default_contract, OPFORGE_FAST);
  EXPECT_EQ(info->artifact_count, 1u);
  EXPECT_EQ(opforge_operator_find(context, "nothing", &op), OPFORGE_NOT_FOUND);
}

TEST_F(CApi, ExplainTraceCountersAndDigest) {
  opforge_metrics_reset();
  opforge_trace_start(0);
  ASSERT_EQ(call(), OPFORGE_OK);
  EXPECT_EQ(call("test.scal"), OPFORGE_NOT_FOUND);
  opforge_trace_stop();
  const auto text = [](auto function, auto... arguments) {
    char* given = nullptr;
    EXPECT_EQ(function(arguments..., &given), OPFORGE_OK) << last();
    std::string copy = given == nullptr ? "" : given;
    opforge_text_free(given);
    return copy;
  };
  const std::string trace = text(opforge_trace_take_json);
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 2);
  EXPECT_TRUE(has(trace, "test.scale.cpu") && has(trace, "not_found")) << trace;
  EXPECT_TRUE(has(text(opforge_events_json), "unproved"));
  EXPECT_EQ(text(opforge_fallbacks_json), "[]");
  EXPECT_TRUE(has(text(opforge_metrics_text), "# EOF"));
  EXPECT_TRUE(has(text(opforge_devices_json), "cpu:0"));
  const std::string why = text([&](char** json) {
    return opforge_explain_json(context, "test.scale", tensors, 2, nullptr, 0, nullptr, json);
  });
  EXPECT_TRUE(has(why, "\"taken\":true") && has(why, "\"asked\":\"FAST\"")) << why;
  char first[65], second[65];
  ASSERT_EQ(opforge_choices_digest(context, first), OPFORGE_OK);
  ASSERT_EQ(call("test.scratch"), OPFORGE_OK);
  ASSERT_EQ(opforge_choices_digest(context, second), OPFORGE_OK);
  EXPECT_EQ(std::string(first).size(), 64u);
  EXPECT_NE(std::string(first), second);
}

TEST_F(CApi, ErrorsBelongToTheirThread) {
  EXPECT_EQ(call("test.scal"), OPFORGE_NOT_FOUND);
  const std::string mine = last();
  std::thread([] { EXPECT_STREQ(opforge_last_error(), ""); }).join();
  EXPECT_EQ(last(), mine);
}

TEST(CApiTrust, OnlyTrustedKeysOpenPacks) {
  opforge_context* context = nullptr;
  ASSERT_EQ(opforge_context_create(nullptr, &context), OPFORGE_OK);
  EXPECT_EQ(open_pack(context, "signed", ""), OPFORGE_UNTRUSTED);
  EXPECT_EQ(open_pack(context, "stranger", key_hex()), OPFORGE_UNTRUSTED);
  EXPECT_EQ(open_pack(context, "unsigned", key_hex()), OPFORGE_UNTRUSTED);
  EXPECT_EQ(open_pack(context, "signed", "not a key"), OPFORGE_NOT_FOUND) << last();
  EXPECT_EQ(open_pack(context, "absent", key_hex()), OPFORGE_NOT_FOUND);
  EXPECT_EQ(open_pack(context, "signed", key_file()), OPFORGE_OK)
      << last();  // a file that holds it
  opforge_pack_options options;
  OPFORGE_INIT(options);
  options.only_named_keys = 1;
  options.allow_unsigned = 1;
  EXPECT_EQ(opforge_pack_open(context, pack("unsigned").c_str(), &options), OPFORGE_OK) << last();
  EXPECT_EQ(opforge_pack_open(context, pack("stranger").c_str(), &options), OPFORGE_UNTRUSTED);
  opforge_context_destroy(context);
}

TEST(CApiTrust, AContextWithoutPacksSaysSo) {
  opforge_context* context = nullptr;
  ASSERT_EQ(opforge_context_create(nullptr, &context), OPFORGE_OK);
  EXPECT_EQ(opforge_call(context, "test.scale", nullptr, 0, nullptr, 0, nullptr),
            OPFORGE_NOT_FOUND);
  EXPECT_TRUE(has(last(), "no pack is open")) << last();
  opforge_context_destroy(context);
}

TEST(CApiLibrary, NamesAndVersions) {
  EXPECT_EQ(opforge_abi_version(), static_cast<std::uint32_t>(OPFORGE_ABI_VERSION));
  EXPECT_STRNE(opforge_version(), "");
  EXPECT_STREQ(opforge_status_name(OPFORGE_OK), "ok");
  EXPECT_STREQ(opforge_status_name(OPFORGE_UNAVAILABLE), "unavailable");
  EXPECT_STREQ(opforge_status_name(OPFORGE_CONTRACT_UNSATISFIED), "contract_unsatisfied");
  EXPECT_STREQ(opforge_status_name(OPFORGE_INTERNAL), "internal");
  EXPECT_STREQ(opforge_status_name(static_cast<opforge_status>(99)), "unknown");
}

// A stand-alone program under an empty environment, trusting only the key that it names.
int sealed_run(const char* mode) {
  const std::string program = OPFORGE_SEALED_RUN, path = pack("signed"), key = key_hex();
  std::vector<char*> argv = {const_cast<char*>(program.c_str()), const_cast<char*>(path.c_str()),
                             const_cast<char*>(key.c_str()), const_cast<char*>(mode), nullptr};
  char* environment[] = {nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environment) != 0)
    return -1;
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(CApiSealed, RunsAndAttemptsNoWriteAndNoProcess) {
  const int watched = sealed_run("write");
  if (WIFEXITED(watched) && WEXITSTATUS(watched) == 77)
    GTEST_SKIP() << "this machine has no seccomp filters";
  ASSERT_TRUE(WIFSIGNALED(watched) && WTERMSIG(watched) == SIGSYS) << "the watch does not work";
  const int status = sealed_run(nullptr);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace
