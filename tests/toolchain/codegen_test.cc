#include "toolchain/codegen.hpp"

#include "toolchain/kernel_fixture.hpp"
#include "toolchain/reference_kernel.hpp"

namespace opforge {
namespace {

Operator declared() {
  static test::Folder folder;
  return test::scale_rows(folder.path());
}

TEST(VariantStruct, NamesTypesAndConstants) {
  Operator op = declared();
  AttrArg mode;
  mode.name = "mode";
  mode.type = AttrType::kText;
  mode.choices = {"erf", "tanh"};
  mode.baked = true;
  AttrArg eps;
  eps.name = "eps";
  eps.baked = true;
  op.signature.attributes.push_back(mode);
  op.signature.attributes.push_back(eps);
  Variant variant = test::cpu_variant(op, "x86-64-v3", DType::kBF16);
  variant.baked["mode"] = std::string("tanh");
  variant.baked["eps"] = 0.25;
  const auto text = variant_struct(op.signature, variant);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text,
            "struct V {\n  using T = opforge::bf16;\n  static constexpr long long GRAIN = 4ll;\n"
            "  static constexpr double eps = 0x1p-2;\n  static constexpr int mode = 1;\n"
            "  static constexpr bool negate = false;\n};\n");
}

TEST(VariantStruct, RefusesAValueOfAnotherKind) {
  const Operator op = declared();
  Variant variant = test::cpu_variant(op);
  variant.baked["negate"] = std::string("yes");
  const auto text = variant_struct(op.signature, variant);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("negate"), std::string::npos);
}

TEST(EntryParameters, AreConstWhereTheTensorIsOnlyRead) {
  const Operator op = declared();
  const auto parameters = entry_parameters(op.signature, op.kernels.front().launch.steps.front());
  ASSERT_TRUE(parameters);
  std::vector<std::string> types;
  for (const EntryParameter& parameter : *parameters) types.push_back(parameter.c_type);
  EXPECT_EQ(types, (std::vector<std::string>{"const void*", "const void*", "void*", "long long",
                                             "long long", "long long", "float"}));
}

TEST(EntryParameters, RefuseAggregates) {
  const Operator op = declared();
  LaunchStep step;
  step.entry = "e";
  step.bindings = {test::bind("whole", ParamType::kBytes, "")};
  const auto parameters = entry_parameters(op.signature, step);
  ASSERT_FALSE(parameters);
  EXPECT_NE(parameters.error().message.find("whole"), std::string::npos);
}

TEST(EntrySymbol, DiffersByKeyAndIsAnIdentifier) {
  const Operator op = declared();
  const Variant variant = test::cpu_variant(op);
  const std::string a = entry_symbol(variant, sha256(std::string_view("a")), "scale_rows");
  const std::string b = entry_symbol(variant, sha256(std::string_view("b")), "scale_rows");
  EXPECT_NE(a, b);
  EXPECT_EQ(a, identifier(a));
  EXPECT_NE(a.find("scale_rows"), std::string::npos);
}

TEST(ReferenceKernel, BindsEveryTensorAttributeAndDim) {
  const Operator op = declared();
  const KernelDecl kernel = reference_kernel(op);
  EXPECT_EQ(kernel.id, "scale_rows.reference");
  EXPECT_EQ(kernel.tier, Tier::kHighPrecision);
  ASSERT_EQ(kernel.launch.steps.size(), 1u);
  // 3 pointers with presence and dtype; 2 + 1 + 2 dims, as many strides; 2 attributes; M and N.
  EXPECT_EQ(kernel.launch.steps[0].bindings.size(), 3u * 3 + 2 * 5 + 2 + 2);
}

}  // namespace
}  // namespace opforge
