#include "operator/infer.hpp"

#include <gtest/gtest.h>

namespace opforge {
namespace {

Signature row_signature() {
  Signature s;
  s.name = "test.halves";
  s.tensors = {
      {.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
      {.name = "w", .dims = {"N"}, .dtype = "W", .optional = true},
      {.name = "y", .dims = {"...M", "ceil_div(N,2)"}, .dtype = "T", .access = Access::kWrite}};
  s.dtypes = {{{"T", DType::kF32}, {"W", DType::kF32}}, {{"T", DType::kBF16}, {"W", DType::kF32}}};
  return s;
}

TEST(Infer, OutputKeepsLeadingDimsAndDtype) {
  const std::int64_t dims[] = {2, 3, 5};
  float data[30];
  const TensorView tensors[] = {TensorView::contiguous(data, DType::kBF16, dims),
                                TensorView::absent(), TensorView::absent()};
  auto out = infer_outputs(row_signature(), tensors, {});
  ASSERT_TRUE(out.has_value()) << out.error().message;
  const TensorView& y = (*out)[2];
  ASSERT_EQ(y.rank, 3);
  EXPECT_EQ(y.dims[0], 2);
  EXPECT_EQ(y.dims[1], 3);
  EXPECT_EQ(y.dims[2], 3);
  EXPECT_EQ(y.dtype, DType::kBF16);
  EXPECT_FALSE((*out)[1].present());
}

TEST(Infer, AMultipleOfASymbolTellsTheSymbol) {
  Signature s = row_signature();
  s.tensors = {{.name = "x", .dims = {"...M", "2*N"}, .dtype = "T"},
               {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite}};
  s.dtypes = {{{"T", DType::kF32}}};
  const std::int64_t dims[] = {3, 10};
  float data[30];
  const TensorView tensors[] = {TensorView::contiguous(data, DType::kF32, dims),
                                TensorView::absent()};
  auto out = infer_outputs(s, tensors, {});
  ASSERT_TRUE(out.has_value()) << out.error().message;
  ASSERT_EQ((*out)[1].rank, 2);
  EXPECT_EQ((*out)[1].dims[1], 5);
}

TEST(Infer, WhatDoesNotFollowIsNamed) {
  const TensorView none[] = {TensorView::absent(), TensorView::absent(), TensorView::absent()};
  auto out = infer_outputs(row_signature(), none, {});
  ASSERT_FALSE(out.has_value());
  EXPECT_NE(out.error().message.find("...M"), std::string::npos);
}

TEST(Infer, PlaceholdersDoNotOverlap) {
  auto tensors =
      placeholder_tensors(row_signature(), {{"M", std::int64_t{4}}, {"N", std::int64_t{7}}},
                          row_signature().dtypes[1], {}, {});
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_FALSE(overlaps((*tensors)[0], (*tensors)[2]));
  EXPECT_EQ((*tensors)[1].dtype, DType::kF32);
  EXPECT_EQ((*tensors)[2].dims[1], 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*tensors)[1].data) % 4096, 0u);
  EXPECT_TRUE(bind_call(row_signature(), *tensors, {}).has_value());
}

TEST(Infer, AMissingOrUnknownSymbolIsNamed) {
  const auto missing = placeholder_tensors(row_signature(), {{"M", std::int64_t{4}}},
                                           row_signature().dtypes[0], {}, {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("lacks N"), std::string::npos);
  const auto unknown = placeholder_tensors(row_signature(), {{"K", std::int64_t{4}}},
                                           row_signature().dtypes[0], {}, {});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message.find("no dim K"), std::string::npos);
}

}  // namespace
}  // namespace opforge
