// Which variants a kernel has.
#include <algorithm>

#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

class Variants : public testing::Test {
 protected:
  Variants() : op_(test::scale_rows(folder_.path())), target_(*parse_target("x86-64-v3")) {}

  ShapeRequest shape(std::int64_t m, std::int64_t n = 33) const {
    return {{{"M", m}, {"N", n}}, {}, {{"T", DType::kF32}}};
  }
  std::vector<Variant> defaults(const ShapeRequest& shape) {
    auto variants = default_variants(op_, op_.kernels.front(), shape, target_);
    EXPECT_TRUE(variants) << variants.error().message;
    return variants ? *variants : std::vector<Variant>{};
  }
  static std::set<std::int64_t> values(const std::vector<Variant>& variants,
                                       const std::string& name) {
    std::set<std::int64_t> found;
    for (const Variant& variant : variants)
      found.insert(std::get<std::int64_t>(variant.values.at(name)));
    return found;
  }

  test::Folder folder_;
  Operator op_;
  Target target_;
};

TEST_F(Variants, TunablesTakeTheListedValueNearestToTheirDefault) {
  const std::pair<std::int64_t, std::int64_t> kCases[] = {
      {0, 1}, {64, 1}, {3 * 64, 4}, {9 * 64, 4}, {11 * 64, 16}, {1 << 20, 64}};
  for (const auto& [m, grain] : kCases) {
    const auto variants = defaults(shape(m));
    ASSERT_EQ(variants.size(), 1u);
    EXPECT_EQ(std::get<std::int64_t>(variants[0].values.at("GRAIN")), grain) << "M = " << m;
    EXPECT_EQ(variants[0].op, "demo.scale_rows");
    EXPECT_EQ(variants[0].target, "x86-64-v3");
    EXPECT_EQ(std::get<std::int64_t>(variants[0].baked.at("negate")), 0);
  }
}

TEST_F(Variants, BakedAttributesTakeTheShapesValue) {
  ShapeRequest request = shape(1);
  request.attributes = {{"negate", std::int64_t{1}}};
  EXPECT_EQ(std::get<std::int64_t>(defaults(request).at(0).baked.at("negate")), 1);
}

TEST_F(Variants, EverySpecialisationIsBuilt) {
  op_.kernels[0].tunables.push_back({"VEC", {1, 4, 8}, "", false, true});
  EXPECT_EQ(values(defaults(shape(1)), "VEC"), (std::set<std::int64_t>{1, 4, 8}));
}

TEST_F(Variants, ConstraintsLeaveCombinationsOut) {
  op_.kernels[0].tunables.push_back({"VEC", {1, 4, 8}, "", false, true});
  op_.kernels[0].constraints = {"VEC * T.itemsize <= 16"};
  EXPECT_EQ(values(defaults(shape(1)), "VEC"), (std::set<std::int64_t>{1, 4}));
  const auto space = variant_space(op_, op_.kernels[0], shape(1), target_);
  ASSERT_TRUE(space);
  EXPECT_EQ(space->size(), 4u * 2);
}

TEST_F(Variants, DeterministicKernelsServeEveryWidthWithOneValueEach) {
  op_.signature.reduced_dims = {"N"};
  KernelDecl& kernel = op_.kernels[0];
  kernel.tier = Tier::kDeterministic;
  kernel.tunables.push_back({"LANES", {8, 16, 32}, "N / 8", true, false});
  kernel.tunables.push_back({"FIXED", {1, 2}, "T == 'f32' ? 2 : 1", true, false});
  const auto variants = defaults(shape(1));
  EXPECT_EQ(values(variants, "LANES"), (std::set<std::int64_t>{8, 16, 32}));
  EXPECT_EQ(values(variants, "FIXED"), (std::set<std::int64_t>{2}))
      << "no shape ever asks for another";
  EXPECT_EQ(values(variants, "GRAIN"), (std::set<std::int64_t>{1})) << "changes no bits";
  // The tuner may not leave the bit class of its shape: N = 33 gives 8.
  const auto space = variant_space(op_, kernel, shape(1), target_);
  ASSERT_TRUE(space);
  EXPECT_EQ(values(*space, "LANES"), (std::set<std::int64_t>{8}));
  EXPECT_EQ(values(*space, "GRAIN").size(), 4u);
}

TEST_F(Variants, NoneForForeignTargetsDtypesAndArchitectures) {
  const KernelDecl& kernel = op_.kernels[0];
  EXPECT_FALSE(compiles_for(op_, kernel, {{"T", DType::kF16}}, target_));
  EXPECT_NE(compiles_for(op_, kernel, {{"T", DType::kF16}}, target_).reason().find("T=f16"),
            std::string::npos);
  EXPECT_FALSE(compiles_for(op_, kernel, {{"T", DType::kF32}}, *parse_target("sm_90a")));
  op_.kernels[0].requires_any = {{DeviceKind::kCpu, 4, 0}};
  EXPECT_FALSE(compiles_for(op_, kernel, {{"T", DType::kF32}}, target_));
  EXPECT_TRUE(compiles_for(op_, kernel, {{"T", DType::kF32}}, *parse_target("x86-64-v4")));
  EXPECT_TRUE(defaults(shape(1)).empty());
}

TEST_F(Variants, TheBatchIsNeverCompiledIn) {
  std::set<std::string> names;
  for (std::int64_t rows = 1; rows <= 512; rows++) {
    for (const Variant& variant : defaults(shape(rows))) names.insert(to_string(variant));
  }
  EXPECT_LE(names.size(), 3u);
}

// The same for every operator of the catalogue: rows from 1 to 512, for each kernel, dtypes and
// target.
TEST(Catalogue, RowsFromOneTo512TakeAtMostThreeVariants) {
  const auto catalogue = load_catalogue();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  for (const Operator* op : catalogue->all()) {
    const auto with_rows = std::find_if(op->cases.begin(), op->cases.end(),
                                        [](const Case& one) { return one.dims.contains("M"); });
    if (with_rows == op->cases.end()) continue;
    for (const KernelDecl& kernel : op->kernels) {
      for (const char* name : {"x86-64-v3", "sm_90a"}) {
        for (const DTypeCombo& combo :
             kernel.dtypes.empty() ? op->signature.dtypes : kernel.dtypes) {
          // A DETERMINISTIC kernel has its bit class for every width besides: count what rows add
          // to the first.
          std::set<std::string> names;
          std::size_t first = 0;
          for (std::int64_t rows = 1; rows <= 512; rows++) {
            ShapeRequest shape{with_rows->dims, with_rows->attributes, combo};
            shape.dims["M"] = rows;
            const auto variants = default_variants(*op, kernel, shape, *parse_target(name));
            ASSERT_TRUE(variants) << variants.error().message;
            for (const Variant& variant : *variants) names.insert(to_string(variant));
            if (rows == 1) first = names.size();
          }
          EXPECT_LE(names.size(), 3 * std::max<std::size_t>(first, 1))
              << kernel.id << " " << to_string(combo) << " " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace opforge
