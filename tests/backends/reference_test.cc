// The compiled reference against the reference called directly: any dtypes, strides and optionals
// of one artifact.
#include <cmath>
#include <limits>

#include "backends/code_fixture.hpp"
#include "runtime/plan.hpp"
#include "toolchain/elf.hpp"
#include "toolchain/reference_kernel.hpp"

namespace opforge {
namespace {

using test::Folder;

class ReferenceArtifact : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    op_ = new Operator(test::scale_rows(folder_->path()));
    add_reference_kernel(*op_);
    Variant variant;
    variant.op = op_->signature.name;
    variant.kernel = "scale_rows.reference";
    variant.backend = "reference";
    variant.tier = Tier::kHighPrecision;
    variant.target = "x86-64";
    auto compiled = test::compile(*op_, op_->kernels.back(), variant);
    ASSERT_TRUE(compiled) << compiled.error().message;
    compiled_ = new Compiled(std::move(*compiled));
    code_ = new test::OpenCode(compiled_->code, compiled_->symbols.begin()->second);
    ASSERT_NE(code_->function, nullptr);
  }
  static void TearDownTestSuite() {
    delete code_;
    delete compiled_;
    delete op_;
    delete folder_;
  }

  // Runs the artifact through the launch record, as the runtime does.
  static void run(std::vector<TensorView> views, const ValueMap& attributes) {
    const auto call = bind_call(op_->signature, views, attributes);
    ASSERT_TRUE(call) << call.error().message;
    auto prepared = prepare_launch(op_->signature, *call, compiled_->launch, {}, DeviceInfo{});
    ASSERT_TRUE(prepared) << prepared.error().message;
    ASSERT_EQ(prepared->steps.size(), 1u);
    PreparedStep& step = prepared->steps.front();
    EXPECT_EQ(step.items, 1);
    for (const auto& patch : step.pointers) {
      const char* base =
          patch.tensor < 0
              ? nullptr
              : static_cast<const char*>(call->tensors[std::size_t(patch.tensor)].data);
      if (base != nullptr) base += patch.add_bytes;
      std::memcpy(step.arguments.data() + patch.offset_bytes, &base, sizeof base);
    }
    code_->function(step.arguments.data(), 0, 1);
  }

  static inline Folder* folder_ = nullptr;
  static inline Operator* op_ = nullptr;
  static inline Compiled* compiled_ = nullptr;
  static inline test::OpenCode* code_ = nullptr;
};

struct Buffer {
  Buffer(DType dtype, std::size_t elements)
      : dtype(dtype), bytes(elements * itemsize(dtype), '\0') {}
  void set(std::size_t i, double value) {
    store_from_double(&bytes[i * itemsize(dtype)], dtype, value);
  }
  double get(std::size_t i) const { return load_as_double(&bytes[i * itemsize(dtype)], dtype); }
  TensorView view(std::vector<std::int64_t> dims, std::vector<std::int64_t> strides,
                  std::size_t first = 0) {
    TensorView v;
    v.data = &bytes[first * itemsize(dtype)];
    v.dtype = dtype;
    v.rank = int(dims.size());
    std::copy(dims.begin(), dims.end(), v.dims.begin());
    std::copy(strides.begin(), strides.end(), v.strides.begin());
    return v;
  }
  DType dtype;
  std::string bytes;
};

TEST_F(ReferenceArtifact, NeedsOnlyTheSystemsLibraries) {
  const auto facts = read_elf(compiled_->code);
  ASSERT_TRUE(facts);
  for (const std::string& name : facts->needed) {
    EXPECT_TRUE(name == "libm.so.6" || name == "libc.so.6" || name == "ld-linux-x86-64.so.2")
        << name;
  }
  EXPECT_EQ(facts->exported.size(), 1u);
}

TEST_F(ReferenceArtifact, ServesEveryDtypeRoundedToNearest) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Buffer x(dtype, 6), y(dtype, 6);
    const double values[] = {1.0078125,
                             -2.5,
                             1e30,
                             0.0,
                             std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()};
    for (std::size_t i = 0; i < 6; i++) x.set(i, values[i]);
    run({x.view({2, 3}, {3, 1}), TensorView::absent(), y.view({2, 3}, {3, 1})}, {{"alpha", 3.0}});
    for (std::size_t i = 0; i < 6; i++) {
      Buffer want(dtype, 1);
      want.set(0, 3.0 * x.get(i));
      if (std::isnan(want.get(0))) {
        EXPECT_TRUE(std::isnan(y.get(i)));
      } else {
        EXPECT_EQ(y.get(i), want.get(0)) << dtype_name(dtype) << " " << i;
      }
    }
  }
}

TEST_F(ReferenceArtifact, HonoursStridesZeroAndNegative) {
  Buffer x(DType::kF32, 4), b(DType::kF32, 3), y(DType::kF32, 20);
  for (std::size_t i = 0; i < 4; i++) x.set(i, double(i) + 1);
  for (std::size_t i = 0; i < 3; i++) b.set(i, 100.0 * double(i + 1));
  for (std::size_t i = 0; i < 20; i++) y.set(i, -7);
  // x: 2 rows of 3 that are all row [4,3,2] (zero and negative stride); b: reversed; y: rows 10
  // apart, every second element.
  run({x.view({2, 3}, {0, -1}, 3), b.view({3}, {-1}, 2), y.view({2, 3}, {10, 2})},
      {{"alpha", 2.0}, {"negate", std::int64_t{1}}});
  const double row[] = {-8 + 300, -6 + 200, -4 + 100};
  for (std::size_t i = 0; i < 20; i++) {
    const bool written = i % 10 == 0 || i % 10 == 2 || i % 10 == 4;
    EXPECT_EQ(y.get(i), written ? row[i % 10 / 2] : -7) << i;
  }
}

TEST_F(ReferenceArtifact, LeadingDimsAndEmptyTensors) {
  Buffer x(DType::kBF16, 12), y(DType::kBF16, 12);
  for (std::size_t i = 0; i < 12; i++) x.set(i, double(i));
  run({x.view({2, 2, 3}, {6, 3, 1}), TensorView::absent(), y.view({2, 2, 3}, {6, 3, 1})}, {});
  for (std::size_t i = 0; i < 12; i++) EXPECT_EQ(y.get(i), 2.0 * double(i));
  y.set(0, 5);
  const auto call = bind_call(
      op_->signature,
      std::vector<TensorView>{x.view({0, 3}, {3, 1}), TensorView::absent(), y.view({0, 3}, {3, 1})},
      {});
  ASSERT_TRUE(call);
  EXPECT_EQ(y.get(0), 5);
}

// Every 16-bit and 8-bit float, and values between, through load and store: against the element
// functions of src/tensor.
TEST_F(ReferenceArtifact, ConvertsEveryFloatExactly) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    const std::size_t n = itemsize(dtype) == 2 ? 65536 : 256;
    Buffer x(dtype, n), y(dtype, n);
    for (std::size_t i = 0; i < n; i++)
      std::memcpy(&x.bytes[i * itemsize(dtype)], &i, itemsize(dtype));
    Operator any = *op_;  // the artifact takes any dtype: the signature of this call offers it
    any.signature.dtypes.push_back({{"T", dtype}});
    std::swap(any, *op_);
    run({x.view({1, std::int64_t(n)}, {std::int64_t(n), 1}), TensorView::absent(),
         y.view({1, std::int64_t(n)}, {std::int64_t(n), 1})},
        {{"alpha", 1.37}});
    std::swap(any, *op_);
    for (std::size_t i = 0; i < n; i++) {
      Buffer want(dtype, 1);
      want.set(0, 1.37 * x.get(i));
      if (std::isnan(want.get(0))) {
        ASSERT_TRUE(std::isnan(y.get(i))) << dtype_name(dtype) << " " << i;
      } else {
        ASSERT_EQ(y.get(i), want.get(0)) << dtype_name(dtype) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace opforge
