#include "forge/expected.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "tensor/npy.hpp"
#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

double element(const NpyArray& array, DType dtype, std::size_t i) {
  return load_as_double(array.bytes.data() + i * itemsize(dtype), dtype);
}

TEST(Expected, InputsAndResultsCanBeCheckedByHand) {
  test::Folder folder;
  Catalogue catalogue;
  ASSERT_TRUE(add_operator(catalogue, test::scale_rows(folder / "op")));
  const std::vector<const Operator*> operators = catalogue.all();
  const auto written = write_expected(operators, {}, folder / "out");
  ASSERT_TRUE(written) << written.error().message;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Path at =
        folder / "out" / "demo.scale_rows" / ("small.T-" + std::string(dtype_name(dtype)));
    const auto json = nlohmann::json::parse(*read_file(at / "case.json"));
    EXPECT_EQ(json["op"], "demo.scale_rows");
    EXPECT_EQ(json["contract"], "HIGH_PRECISION");
    EXPECT_EQ(json["attributes"]["alpha"], 2.0);
    ASSERT_EQ(json["tensors"].size(), 3u);
    EXPECT_EQ(json["tensors"][0]["dims"], (std::vector<int>{5, 33}));
    const auto x = read_npy(at / json["tensors"][0]["file"].get<std::string>());
    const auto b = read_npy(at / json["tensors"][1]["file"].get<std::string>());
    const auto& tolerance = json["tolerance"]["y"];
    const auto y = read_npy(at / tolerance["expected"].get<std::string>());
    const auto condition = read_npy(at / tolerance["condition"].get<std::string>());
    ASSERT_TRUE(x && b && y && condition);
    ASSERT_EQ(y->dtype, DType::kF64);
    EXPECT_EQ(tolerance["a"], 1.0);
    EXPECT_EQ(tolerance["b"], 4.0);
    bool varied = false;
    for (std::size_t i = 0; i < 5 * 33; i++) {
      const double want = 2.0 * element(*x, dtype, i) + element(*b, dtype, i % 33);
      EXPECT_EQ(element(*y, DType::kF64, i), want);
      const double magnitude =
          2.0 * std::abs(element(*x, dtype, i)) + std::abs(element(*b, dtype, i % 33));
      EXPECT_EQ(element(*condition, DType::kF64, i), magnitude);
      varied = varied || want != element(*y, DType::kF64, 0);
    }
    EXPECT_TRUE(varied);
    const auto bare =
        nlohmann::json::parse(*read_file(Path(at.string() + ".without-optional") / "case.json"));
    EXPECT_EQ(bare["tensors"][1]["absent"], true);
  }
}

TEST(Expected, SaysWhenNothingIsSmallEnough) {
  test::Folder folder;
  Operator op = test::scale_rows(folder / "op");
  op.cases[0].dims["M"] = std::int64_t{1} << 20;
  const Operator* const operators[] = {&op};
  const auto written = write_expected(operators, {}, folder / "out");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("demo.scale_rows"), std::string::npos);
}

}  // namespace
}  // namespace opforge
