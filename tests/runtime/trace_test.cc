#include "runtime/trace.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <thread>

namespace opforge {
namespace {

TraceRecord numbered(std::int64_t i) {
  TraceRecord record;
  record.op = "norm.rms_norm";
  record.start_ns = i;
  return record;
}

TEST(Trace, OffKeepsNothing) {
  trace_stop();
  (void)trace_take();
  trace_add(numbered(1));
  EXPECT_FALSE(trace_on());
  EXPECT_TRUE(trace_take().empty());
}

TEST(Trace, DropsTheOldestBeyondItsCapacity) {
  trace_start(3);
  for (int i = 0; i < 5; ++i) trace_add(numbered(i));
  EXPECT_EQ(trace_dropped(), 2u);
  auto records = trace_take();
  ASSERT_EQ(records.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(records[static_cast<std::size_t>(i)].start_ns, i + 2);
  EXPECT_TRUE(trace_take().empty());
  trace_add(numbered(9));
  trace_stop();
  trace_add(numbered(10));
  records = trace_take();  // what was kept stays readable after stop
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].start_ns, 9);
}

TEST(Trace, StartClears) {
  trace_start(2);
  for (int i = 0; i < 3; ++i) trace_add(numbered(i));
  trace_start(2);
  EXPECT_EQ(trace_dropped(), 0u);
  EXPECT_TRUE(trace_take().empty());
  trace_start(0);
  trace_add(numbered(1));
  EXPECT_EQ(trace_dropped(), 1u);
  trace_stop();
  EXPECT_TRUE(trace_take().empty());
}

TEST(Trace, ThreadsLoseNothing) {
  constexpr int kThreads = 8, kEach = 500;
  trace_start(kThreads * kEach / 2);
  std::size_t taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kEach; ++i) trace_add(numbered(t * kEach + i));
      });
    }
    for (int i = 0; i < 20; ++i) taken += trace_take().size();
  }
  taken += trace_take().size();
  EXPECT_EQ(taken + trace_dropped(), static_cast<std::size_t>(kThreads * kEach));
  trace_stop();
}

void expect_equal(const TraceRecord& a, const TraceRecord& b) {
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_EQ(a.variant, b.variant);
  EXPECT_EQ(a.backend, b.backend);
  EXPECT_EQ(a.tier, b.tier);
  EXPECT_EQ(a.contract, b.contract);
  EXPECT_EQ(a.grade, b.grade);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.attributes, b.attributes);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    EXPECT_EQ(a.tensors[i].dtype, b.tensors[i].dtype);
    EXPECT_EQ(a.tensors[i].dims, b.tensors[i].dims);
    EXPECT_EQ(a.tensors[i].strides, b.tensors[i].strides);
  }
  EXPECT_EQ(a.start_ns, b.start_ns);
  EXPECT_EQ(a.host_us, b.host_us);
}

TraceRecord full_record() {
  TraceRecord record;
  record.op = "norm.rms_norm";
  record.kernel = "rms_norm.cpu.row";
  record.variant = "rms_norm.cpu.row{T=bf16}[VEC=8]@x86-64-v3";
  record.backend = "cpu";
  record.tier = "HIGH_PRECISION";
  record.contract = "FAST";
  record.grade = "nearest";
  record.outcome = "ok";
  record.device = "cpu:0";
  record.attributes = {{"eps", 1e-6},
                       {"one", 1.0},
                       {"n", INT64_MIN},
                       {"big", INT64_MAX},
                       {"mode", std::string("tanh")}};
  record.tensors = {{"x", "bf16", {4096, 1024}, {1024, 1}}, {"y", "f32", {}, {}}};
  record.start_ns = INT64_MAX;
  record.host_us = 12.75;
  return record;
}

TEST(TraceJson, RoundTrip) {
  const std::string line = trace_to_json(full_record());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = trace_from_json(line);
  ASSERT_TRUE(back) << back.error().message;
  expect_equal(full_record(), *back);
}

TEST(TraceJson, HostileTextsRoundTripOnOneLine) {
  TraceRecord record = full_record();
  record.message =
      std::string("a\nb\r\t\"\\\x01\x7f {}[],: \xe2\x80\xa8 \xf0\x9f\x94\xa5 </script>") +
      std::string(1, '\0') + "end";
  record.attributes = {{"\"\\\n", std::string("\n")}, {"", std::string()}};
  record.tensors[0].name = "x\",\"y\":1";
  const std::string line = trace_to_json(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = trace_from_json(line);
  ASSERT_TRUE(back) << back.error().message;
  expect_equal(record, *back);
}

TEST(TraceJson, BytesThatAreNoUtf8DoNotBreakTheLine) {
  TraceRecord record = full_record();
  record.message = "bad \xff\xc3( bytes";
  const auto back = trace_from_json(trace_to_json(record));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->message, "bad \xef\xbf\xbd\xef\xbf\xbd( bytes");
}

TEST(TraceJson, FloatsThatJsonHasNoNumberFor) {
  TraceRecord record = full_record();
  record.attributes = {{"a", HUGE_VAL}, {"b", -HUGE_VAL}, {"c", std::nan("")}};
  record.host_us = std::nan("");
  const auto back = trace_from_json(trace_to_json(record));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->attributes.at("a"), Value{HUGE_VAL});
  EXPECT_EQ(back->attributes.at("b"), Value{-HUGE_VAL});
  EXPECT_TRUE(std::isnan(std::get<double>(back->attributes.at("c"))));
  EXPECT_TRUE(std::isnan(back->host_us));
}

TEST(TraceJson, ForeignLinesAreErrors) {
  const std::string good = trace_to_json(full_record());
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string line = good;
    const std::size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  const std::string bad[] = {"",
                             "{",
                             "[]",
                             "null",
                             "{}",
                             good + good,
                             good.substr(0, good.size() / 2),
                             changed("\"op\":", "\"up\":"),
                             changed("\"norm.rms_norm\"", "7"),
                             changed("[4096,1024]", "[4096,18446744073709551615]"),
                             changed("[4096,1024]", "4096"),
                             changed("[4096,1024]", "[1.5]"),
                             changed("12.75", "\"12.75\""),
                             changed("12.75", "{\"float\":\"NaN\"}"),
                             changed("1e-06", "[]"),
                             changed("9223372036854775807,\"host", "1.0,\"host"),
                             std::string(100000, '[')};
  for (const std::string& line : bad) {
    const auto record = trace_from_json(line);
    ASSERT_FALSE(record) << line;
    EXPECT_EQ(record.error().code, Code::kCorrupt);
    EXPECT_NE(record.error().message.find("trace record: "), std::string::npos);
  }
}

TEST(TraceJson, AnyBytesGiveARecordOrAnError) {
  const std::string good = trace_to_json(full_record());
  EXPECT_TRUE(
      rc::check("flipped bytes", [&](std::uint32_t at, std::uint8_t byte, std::uint32_t length) {
        std::string line = good.substr(0, 1 + length % good.size());
        line[at % line.size()] = static_cast<char>(byte);
        const auto record = trace_from_json(line);
        if (!record) RC_ASSERT(!record.error().message.empty());
      }));
}

}  // namespace
}  // namespace opforge
