#include "tensor/view.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <vector>

namespace opforge {
namespace {

TensorView view_at(std::uintptr_t address, DType dtype, std::vector<std::int64_t> dims,
                   std::vector<std::int64_t> strides) {
  auto view = TensorView::contiguous(reinterpret_cast<void*>(address), dtype, dims);
  for (std::size_t i = 0; i < strides.size(); ++i) view.strides[i] = strides[i];
  return view;
}

std::set<std::uintptr_t> bytes_of(const TensorView& view) {
  std::set<std::uintptr_t> bytes;
  const std::function<void(int, std::int64_t)> visit = [&](int dim, std::int64_t offset) {
    if (dim == view.rank) {
      for (std::size_t b = 0; b < itemsize(view.dtype); ++b) {
        bytes.insert(reinterpret_cast<std::uintptr_t>(view.data) +
                     offset * static_cast<std::int64_t>(itemsize(view.dtype)) + b);
      }
      return;
    }
    for (std::int64_t i = 0; i < view.dims[dim]; ++i)
      visit(dim + 1, offset + i * view.strides[dim]);
  };
  visit(0, 0);
  return bytes;
}

TEST(View, ContiguousStrides) {
  const auto view = view_at(64, DType::kBF16, {4, 3, 5}, {});
  EXPECT_EQ(view.strides[0], 15);
  EXPECT_EQ(view.strides[1], 5);
  EXPECT_EQ(view.strides[2], 1);
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.element_count(), 60);
  EXPECT_EQ(describe(view), "bf16[4,3,5] strides [15,5,1] on cpu:0");
}

TEST(View, ContiguityIgnoresTheStrideOfOnes) {
  EXPECT_TRUE(view_at(64, DType::kF32, {1, 8}, {1185, 1}).is_contiguous());
  EXPECT_FALSE(view_at(64, DType::kF32, {2, 8}, {9, 1}).is_contiguous());
  EXPECT_FALSE(view_at(64, DType::kF32, {2, 8}, {1, 2}).is_contiguous());
  EXPECT_FALSE(view_at(64, DType::kF32, {2, 8}, {0, 1}).is_contiguous());
  EXPECT_TRUE(view_at(64, DType::kF32, {0, 8}, {3, 7}).is_contiguous());
  EXPECT_TRUE(view_at(64, DType::kF32, {}, {}).is_contiguous());
}

TEST(View, ByteRangeOfNegativeAndZeroStrides) {
  const auto reversed = view_at(1000, DType::kF32, {4}, {-2});  // elements at 1000, 992, 984, 976
  EXPECT_EQ(byte_range(reversed).low, 976u);
  EXPECT_EQ(byte_range(reversed).high, 1004u);
  const auto broadcast = view_at(1000, DType::kF16, {1000, 8}, {0, 1});
  EXPECT_EQ(byte_range(broadcast).low, 1000u);
  EXPECT_EQ(byte_range(broadcast).high, 1016u);
  EXPECT_EQ(byte_range(view_at(1000, DType::kF32, {3, 0}, {})).high, 0u);
  EXPECT_EQ(byte_range(view_at(1000, DType::kF64, {}, {})).high, 1008u);
}

TEST(View, OverlapOfRanges) {
  const auto a = view_at(1000, DType::kF32, {10}, {});
  EXPECT_TRUE(overlaps(a, a));
  EXPECT_TRUE(overlaps(a, view_at(1036, DType::kF32, {10}, {})));
  EXPECT_FALSE(overlaps(a, view_at(1040, DType::kF32, {10}, {})));
  EXPECT_TRUE(overlaps(a, view_at(1038, DType::kF32, {10}, {})));  // misaligned: bytes are shared
  EXPECT_FALSE(overlaps(a, view_at(1000, DType::kF32, {0}, {})));
  EXPECT_TRUE(overlaps(a, view_at(1100, DType::kF32, {20}, {-2})));
  auto elsewhere = a;
  elsewhere.device = {DeviceKind::kCuda, 0};
  EXPECT_FALSE(overlaps(a, elsewhere));
  EXPECT_FALSE(overlaps(a, TensorView::absent()));
}

TEST(View, InterleavedViewsDoNotOverlap) {
  // The two halves of each row of one [1024, 512] buffer.
  EXPECT_FALSE(overlaps(view_at(1 << 20, DType::kBF16, {1024, 256}, {512, 1}),
                        view_at((1 << 20) + 512, DType::kBF16, {1024, 256}, {512, 1})));
  EXPECT_TRUE(overlaps(view_at(1 << 20, DType::kBF16, {1024, 257}, {512, 1}),
                       view_at((1 << 20) + 512, DType::kBF16, {1024, 256}, {512, 1})));
  // Even and odd columns.
  EXPECT_FALSE(
      overlaps(view_at(4096, DType::kF32, {100}, {2}), view_at(4100, DType::kF32, {100}, {2})));
  EXPECT_TRUE(
      overlaps(view_at(4096, DType::kF32, {100}, {2}), view_at(4100, DType::kF32, {100}, {3})));
}

TEST(View, OverlapAgreesWithEnumeratingTheBytes) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int seen[2] = {0, 0};
  for (int trial = 0; trial < 4000; ++trial) {
    const auto make = [&] {
      std::vector<std::int64_t> dims, strides;
      for (int rank = pick(0, 3); rank > 0; --rank) {
        dims.push_back(pick(1, 4));
        strides.push_back(pick(-9, 9));
      }
      const DType dtype = pick(0, 1) == 0 ? DType::kF32 : DType::kF16;
      return view_at(static_cast<std::uintptr_t>(10000 + 2 * pick(0, 60)), dtype, dims, strides);
    };
    const auto a = make(), b = make();
    const auto in_a = bytes_of(a), in_b = bytes_of(b);
    bool expected = false;
    for (const auto byte : in_a) expected = expected || in_b.contains(byte);
    ASSERT_EQ(overlaps(a, b), expected) << describe(a) << " " << describe(b);
    ASSERT_EQ(byte_range(a).low, *in_a.begin());
    ASSERT_EQ(byte_range(a).high, *in_a.rbegin() + 1);
    ++seen[expected ? 1 : 0];
  }
  EXPECT_GT(seen[0], 500);
  EXPECT_GT(seen[1], 500);
}

void expect_refused(const TensorView& view, std::string_view part) {
  const auto status = check_shape(view, "x");
  ASSERT_FALSE(status) << describe(view);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().message.rfind("x: ", 0), 0u) << status.error().message;
}

TEST(View, ShapesThatOverflowAreRefused) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_TRUE(check_shape(view_at(64, DType::kF32, {4, 4}, {}), "x"));
  expect_refused(view_at(64, DType::kF32, {big, big}, {}), "overflow");
  expect_refused(view_at(64, DType::kF32, {std::int64_t{1} << 61, 1}, {}),
                 "overflow");  // 2^63 bytes
  EXPECT_TRUE(check_shape(view_at(64, DType::kI8, {std::int64_t{1} << 61, 1}, {}), "x"));
  expect_refused(view_at(64, DType::kF32, {3, 2}, {std::numeric_limits<std::int64_t>::max(), 1}),
                 "strides");
  expect_refused(view_at(64, DType::kF32, {3, 2}, {std::numeric_limits<std::int64_t>::min(), 1}),
                 "strides");
  expect_refused(view_at(64, DType::kF32, {100}, {-1}), "address space");
  expect_refused(view_at(64, DType::kF32, {2, -3}, {}), "dim 1 is -3");
  expect_refused(view_at(0, DType::kF32, {2, 3}, {}), "null");
  expect_refused(view_at(64, DType::kF32, std::vector<std::int64_t>(9, 1), {}), "rank 9");
}

TEST(View, EmptyAndAbsentShapesAreFine) {
  EXPECT_TRUE(check_shape(view_at(0, DType::kF32, {0}, {}), "x"));
  EXPECT_TRUE(check_shape(
      view_at(0, DType::kF32, {std::int64_t{1} << 60, 0, std::int64_t{1} << 60}, {}), "x"));
  EXPECT_TRUE(check_shape(TensorView::absent(), "x"));
  EXPECT_TRUE(check_shape(view_at(64, DType::kF32, {}, {}), "x"));
  EXPECT_EQ(view_at(0, DType::kF32, {0, 5}, {}).element_count(), 0);
  EXPECT_EQ(view_at(64, DType::kF32, {}, {}).element_count(), 1);
}

}  // namespace
}  // namespace opforge
