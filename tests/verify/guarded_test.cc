// Guarded memory must notice what a wrong kernel does to it. The kernels here are the tests
// themselves, writing through the views.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/backends.hpp"
#include "verify/inputs.hpp"
#include "verify/judge.hpp"

namespace opforge {
namespace {

void double_reference(ReferenceCall& call) {
  const auto& x = call.tensors.at("x");
  auto& y = call.tensors.at("y");
  for (std::size_t i = 0; i < x.values.size(); ++i) y.values[i] = 2 * x.values[i];
}

Operator doubling() {
  Operator op;
  op.signature.name = "test.double";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.dtypes = {{{"T", DType::kF32}}};
  op.signature.reduced_dims = {"N"};
  op.tolerances = {{0.5, 0}, {0.5, 0}};
  op.reference = &double_reference;
  return op;
}

Trial plain(std::int64_t rows = 6, std::int64_t columns = 5) {
  Trial trial;
  trial.name = "plain";
  trial.dims = {{"M", rows}, {"N", columns}};
  trial.dtypes = {{"T", DType::kF32}};
  trial.seed = 7;
  return trial;
}

class Guarded : public testing::Test {
 protected:
  void make(const Trial& trial) {
    auto made = TrialMemory::make(op_, trial, *find_device_api(DeviceKind::kCpu), {});
    ASSERT_TRUE(made) << made.error().message;
    memory_ = std::move(*made);
  }
  // y = 2 x through strides.
  void run() {
    const TensorView &x = memory_.views()[0], &y = memory_.views()[1];
    walk(x, y, 0, 0, 0);
  }
  void walk(const TensorView& x, const TensorView& y, int axis, std::int64_t from,
            std::int64_t to) {
    if (axis == x.rank) {
      static_cast<float*>(y.data)[to] = 2 * static_cast<const float*>(x.data)[from];
      return;
    }
    for (std::int64_t i = 0; i < x.dims[static_cast<std::size_t>(axis)]; ++i) {
      walk(x, y, axis + 1, from + i * x.strides[static_cast<std::size_t>(axis)],
           to + i * y.strides[static_cast<std::size_t>(axis)]);
    }
  }
  float* data(int tensor) {
    return static_cast<float*>(memory_.views()[static_cast<std::size_t>(tensor)].data);
  }
  std::string problem() {
    auto verdict = judge(op_, memory_, op_.tolerances.fast);
    return verdict ? verdict->problem : verdict.error().message;
  }

  Operator op_ = doubling();
  TrialMemory memory_;
};

TEST_F(Guarded, EveryLayoutIsJudgedRight) {
  for (int i = 0; i <= static_cast<int>(Layout::kLeadingGapped); ++i) {
    Trial trial = plain();
    trial.layout = static_cast<Layout>(i);
    make(trial);
    run();
    EXPECT_TRUE(memory_.unchanged())
        << layout_name(trial.layout) << memory_.unchanged().error().message;
    EXPECT_EQ(problem(), "") << layout_name(trial.layout);
  }
}

TEST_F(Guarded, LayoutsAreWhatTheySay) {
  Trial trial = plain();
  trial.layout = Layout::kMisaligned;
  make(trial);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data(0)) % 64, 4u);
  trial.layout = Layout::kOffset;
  make(trial);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data(0)) % 128, 64u);
  trial.layout = Layout::kReversedRows;
  make(trial);
  EXPECT_EQ(memory_.views()[0].strides[0], -5);
  trial.layout = Layout::kBroadcastRows;
  make(trial);
  EXPECT_EQ(memory_.views()[0].strides[0], 0);
  EXPECT_EQ(memory_.views()[1].strides[0], 5);  // an output is never broadcast
  trial.layout = Layout::kLeading;
  make(trial);
  EXPECT_EQ(memory_.views()[0].rank, 3);
  EXPECT_EQ(memory_.views()[0].dims[0] * memory_.views()[0].dims[1], 6);
}

TEST_F(Guarded, AWriteOnePastTheEndIsFound) {
  make(plain());
  run();
  data(1)[30] = 1;
  const Status status = memory_.unchanged();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("y: wrote 0 bytes after the end"), std::string::npos)
      << status.error().message;
}

TEST_F(Guarded, AWriteBeforeTheStartIsFound) {
  make(plain());
  run();
  data(1)[-1] = 1;
  EXPECT_NE(memory_.unchanged().error().message.find("before the start"), std::string::npos);
}

TEST_F(Guarded, AWriteIntoAGapIsFound) {
  Trial trial = plain();
  trial.layout = Layout::kPaddedRows;
  make(trial);
  run();
  data(1)[5] = 1;  // rows of y are 5 long and at least 6 apart
  EXPECT_NE(memory_.unchanged().error().message.find("gap"), std::string::npos);
}

TEST_F(Guarded, AChangedInputIsFound) {
  make(plain());
  run();
  data(0)[7] += 1;
  EXPECT_NE(memory_.unchanged().error().message.find("x: changed element [1,2] of an input"),
            std::string::npos)
      << memory_.unchanged().error().message;
}

TEST_F(Guarded, AnUnwrittenElementIsFound) {
  make(plain());
  run();
  ASSERT_TRUE(memory_.reset());
  run();
  std::memset(data(1) + 29, 0xff, 4);
  EXPECT_NE(problem(), "");
}

TEST_F(Guarded, AStaleOutputOfTheLastRunIsFound) {
  make(plain());
  run();
  ASSERT_TRUE(memory_.reset());
  EXPECT_NE(problem(), "");
}

TEST_F(Guarded, ReadingPastTheEndMeetsThePattern) {
  make(plain());
  const float beyond = data(0)[30], before = data(0)[-1];
  EXPECT_TRUE(std::isnan(beyond) || beyond > 1e30f) << beyond;
  EXPECT_TRUE(std::isnan(before) || before > 1e30f) << before;
}

TEST_F(Guarded, AnAliasedOutputSharesTheMemoryAndIsJudgedByTheOldValues) {
  Trial trial = plain();
  trial.alias = "y";
  trial.alias_input = "x";
  make(trial);
  EXPECT_EQ(data(0), data(1));
  run();
  EXPECT_TRUE(memory_.unchanged());
  EXPECT_EQ(problem(), "");
  ASSERT_TRUE(memory_.reset());
  EXPECT_NE(problem(), "");  // put back: not the result any more
}

TEST_F(Guarded, RowsAreTheReferenceOfRows) {
  make(plain());
  const std::vector<std::int64_t> rows{4, 1};
  const auto part = memory_.reference("M", rows);
  const auto whole = memory_.reference();
  ASSERT_TRUE(part && whole);
  const auto &few = part->tensors.at("y").values, &all = whole->tensors.at("y").values;
  ASSERT_EQ(few.size(), 10u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(few[i], all[20 + i]);
    EXPECT_EQ(few[5 + i], all[5 + i]);
  }
}

TEST_F(Guarded, RearrangedMemoryHasTheSameValues) {
  make(plain());
  const std::vector<std::int64_t> rows{5, -1, 0};
  auto other = memory_.rearranged(Layout::kPaddedRows, "M", rows);
  ASSERT_TRUE(other) << other.error().message;
  const auto old = memory_.tensors()[0].initial(), now = other->tensors()[0].initial();
  ASSERT_EQ(now.size(), 15u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(now[i], old[25 + i]);
    EXPECT_EQ(now[10 + i], old[i]);
  }
  EXPECT_NE(now[5], old[25]);
}

TEST_F(Guarded, LargeTrialsAreTiledAndSampled) {
  Trial trial = plain(70001, 37);
  trial.tiled = true;
  make(trial);
  run();
  EXPECT_TRUE(memory_.unchanged());
  EXPECT_EQ(problem(), "");
  std::memset(data(1) + 1234567, 0xff, 4);  // in a row that is not sampled: still seen as unwritten
  EXPECT_NE(problem().find("1 of 2590037 elements were never written"), std::string::npos)
      << problem();
}

TEST_F(Guarded, InputsAreFreshAndRepeatable) {
  make(plain());
  const auto first = memory_.tensors()[0].initial();
  make(plain());
  EXPECT_EQ(memory_.tensors()[0].initial(), first);
  Trial other = plain();
  other.seed = 8;
  make(other);
  EXPECT_NE(memory_.tensors()[0].initial(), first);
}

TEST_F(Guarded, HostileValuesAreThere) {
  const auto values = [&](Data data, std::int64_t rows = 5, std::int64_t columns = 1000) {
    Trial trial = plain(rows, columns);
    trial.data = data;
    make(trial);
    return memory_.tensors()[0].initial();
  };
  std::size_t nans = 0, infinities = 0;
  for (double v : values(Data::kOneNaN)) nans += std::isnan(v);
  EXPECT_GE(nans, 1u);
  EXPECT_LE(nans, 3u);  // never in all rows
  for (double v : values(Data::kBothInfinities)) infinities += std::isinf(v);
  EXPECT_GE(infinities, 2u);
  double squares = 0;
  for (double v : values(Data::kLargeSquares)) squares += static_cast<double>(v * v);
  EXPECT_GT(squares, 1e34);  // and still within fp32:
  EXPECT_LT(squares, 3.4e38 * 5);
  for (double v : values(Data::kLargeMean)) EXPECT_NEAR(v, 100, 0.016);
  double sum = 0, magnitudes = 0;
  for (double v : values(Data::kCancellation, 1, 8192)) sum += v, magnitudes += std::abs(v);
  EXPECT_LT(std::abs(sum), 1300);  // a few ones are left of it
  EXPECT_GT(magnitudes, 2048);
  for (double v : values(Data::kTiny)) EXPECT_LT(std::abs(v), 0x1p-123);
}

TEST(BatchSymbols, AreThoseThatCutEveryOutput) {
  Signature signature;
  signature.tensors = {
      {.name = "x", .dims = {"...M", "N"}, .dtype = "f32"},
      {.name = "w", .dims = {"N"}, .dtype = "f32"},
      {.name = "y", .dims = {"...M", "N"}, .dtype = "f32", .access = Access::kWrite}};
  signature.reduced_dims = {"N"};
  EXPECT_EQ(batch_symbols(signature), (std::vector<std::string>{"M"}));
  signature.reduced_dims.clear();
  EXPECT_EQ(batch_symbols(signature), (std::vector<std::string>{"M", "N"}));
  signature.tensors[1].dims = {"2*N"};  // cutting N would cut this elsewhere
  EXPECT_EQ(batch_symbols(signature), (std::vector<std::string>{"M"}));
}

}  // namespace
}  // namespace opforge
