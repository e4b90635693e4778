#include "contract/precondition.hpp"

#include <gtest/gtest.h>

namespace opforge {
namespace {

TensorView tensor(DType dtype, std::vector<std::int64_t> dims, std::uintptr_t address = 4096) {
  return TensorView::contiguous(reinterpret_cast<void*>(address), dtype, dims);
}

void expect_no(const Support& support, std::string_view part) {
  ASSERT_FALSE(support);
  EXPECT_NE(support.reason().find(part), std::string::npos) << support.reason();
}

TEST(Precondition, Lockstep) {
  const Precondition all[] = {{PreconditionKind::kLockstepRanks}};
  CallerFacts facts;
  EXPECT_TRUE(check_preconditions(all, {}, facts));  // alone
  facts.world_size = 8;
  expect_no(check_preconditions(all, {}, facts), "8 ranks");
  facts.lockstep = true;
  EXPECT_TRUE(check_preconditions(all, {}, facts));
}

TEST(Precondition, Capturing) {
  const Precondition all[] = {{PreconditionKind::kNotCapturing}};
  CallerFacts facts;
  EXPECT_TRUE(check_preconditions(all, {}, facts));
  facts.capturing = true;
  expect_no(check_preconditions(all, {}, facts), "captured");
}

TEST(Precondition, AlignmentSeesEveryTensor) {
  const Precondition all[] = {{PreconditionKind::kAlignment, 16}};
  const TensorView good[] = {tensor(DType::kF32, {4}), tensor(DType::kF32, {0}, 3),
                             TensorView::absent()};
  EXPECT_TRUE(check_preconditions(all, good, {}));
  const TensorView bad[] = {tensor(DType::kF32, {4}), tensor(DType::kF32, {4}, 4104)};
  expect_no(check_preconditions(all, bad, {}),
            "tensor 1 must be aligned to 16 bytes, its address is 8 bytes past");
}

TEST(Precondition, DTypesOfFloatingTensors) {
  const Precondition all[] = {{PreconditionKind::kDTypeIn, 0, {DType::kBF16, DType::kF32}}};
  const TensorView good[] = {tensor(DType::kBF16, {4}), tensor(DType::kI64, {4}),
                             TensorView::absent()};
  EXPECT_TRUE(check_preconditions(all, good, {}));
  const TensorView bad[] = {tensor(DType::kBF16, {4}), tensor(DType::kF16, {4})};
  expect_no(check_preconditions(all, bad, {}), "tensor 1 is f16, expected one of bf16, f32");
}

TEST(Precondition, LeadingDim) {
  const Precondition all[] = {{PreconditionKind::kMinLeadingDim, 8}};
  const TensorView good[] = {tensor(DType::kF32, {2, 4, 16}), tensor(DType::kF32, {16})};
  EXPECT_TRUE(check_preconditions(all, good, {}));
  const TensorView bad[] = {tensor(DType::kF32, {2, 4, 16}), tensor(DType::kF32, {7, 16})};
  expect_no(check_preconditions(all, bad, {}), "tensor 1 has 7 rows");
}

TEST(Precondition, TheFirstFailureIsReportedAndTheCallersOwnComesLast) {
  const Precondition all[] = {{PreconditionKind::kMinLeadingDim, 8},
                              {PreconditionKind::kAlignment, 16}};
  const TensorView bad[] = {tensor(DType::kF32, {7, 16}, 4100)};
  CallerFacts facts;
  int asked = 0;
  facts.user = [&](std::span<const TensorView> tensors) {
    ++asked;
    return tensors[0].dims[0] == 8 ? Support::yes() : Support::no("the router is cold");
  };
  expect_no(check_preconditions(all, bad, facts), "rows");
  EXPECT_EQ(asked, 0);
  const TensorView good[] = {tensor(DType::kF32, {8, 16})};
  EXPECT_TRUE(check_preconditions(all, good, facts));
  const TensorView nine[] = {tensor(DType::kF32, {9, 16})};
  expect_no(check_preconditions(all, nine, facts), "the router is cold");
}

}  // namespace
}  // namespace opforge
