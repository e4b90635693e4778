// Candidates compiled on one machine and tuned on another from the pack: what is built, what a tune
// sees, and that nothing is compiled there.
#include <gtest/gtest.h>

#include <set>

#include "forge/build.hpp"
#include "forge/tune.hpp"
#include "toolchain/kernel_fixture.hpp"

namespace opforge {
namespace {

using test::Folder;

class Candidates : public testing::Test {
 protected:
  Candidates() {
    develop();
    const Status added = add_operator(catalogue_, test::scale_rows(folder_ / "op"));
    EXPECT_TRUE(added) << added.error().message;
    cpu_ = detect_cpu();
  }
  const Operator& op() { return *catalogue_.all().front(); }
  std::string target() { return native_targets(cpu_).front().name; }
  Result<BuildReport> build(std::size_t most, bool candidates = true) {
    BuildRequest request;
    request.operators = catalogue_.all();
    request.targets = {target()};
    request.shapes = {{{"M", std::int64_t{4096}}, {"N", std::int64_t{64}}}};
    request.dtypes = {DType::kF32};
    request.candidates = candidates;
    request.most_candidates = most;
    request.attest = false;
    request.key = &key_;
    request.output = folder_ / "out.ofpack";
    auto store = Store::open(folder_ / "store");
    if (!store) return fail(store.error());
    request.store = &*store;
    return build_pack(request);
  }
  Result<TuneRequest> request() {
    Trust trust;
    trust.keys.insert(key_.public_hex());
    OPFORGE_ASSIGN(auto pack, Pack::open(folder_ / "out.ofpack", trust));
    TuneJob job;
    job.op = &op();
    job.shape = {"4096x64", {{"M", std::int64_t{4096}}, {"N", std::int64_t{64}}}, {}, {{"T", DType::kF32}}};
    job.backends = {"cpu"};
    job.contract = Tier::kHighPrecision;
    job.device = cpu_;
    job.pack = std::move(pack);
    OPFORGE_ASSIGN(Store empty, Store::open(folder_ / "empty"));
    return tune_request(job, empty);
  }
  Folder folder_;
  Catalogue catalogue_;
  SigningKey key_ = SigningKey::generate();
  DeviceInfo cpu_;
};

// GRAIN has four values.
TEST_F(Candidates, TheWholeSpaceIsBuiltAndTunedWithoutACompile) {
  const auto built = build(0);
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_TRUE(built->ok(false));
  const auto tuned = request();
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_EQ(tuned->space.size(), 4u);
  for (const Variant& variant : tuned->space) {
    bool compiled = true;
    const auto code = tuned->hooks.obtain(variant, &compiled);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_FALSE(compiled);
    EXPECT_EQ(code->artifact.code_key, *tuned->hooks.key(variant));
    EXPECT_EQ(code->artifact.code_digest, sha256(std::string_view(code->code)));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "empty/v1"));
}

TEST_F(Candidates, WithoutThemATuneSeesTheDefaultAlone) {
  ASSERT_TRUE(build(0, false));
  const auto tuned = request();
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_EQ(tuned->space.size(), 1u);
  EXPECT_EQ(to_string(tuned->space[0]), to_string(tuned->baseline));
  Variant other = tuned->baseline;
  other.values["GRAIN"] = std::int64_t{1};
  EXPECT_EQ(tuned->hooks.obtain(other, nullptr).error().code, Code::kUnavailable);
}

TEST_F(Candidates, APackOfOtherShapesIsRefusedByName) {
  ASSERT_TRUE(build(0, false));
  Trust trust;
  trust.keys.insert(key_.public_hex());
  TuneJob job;
  job.op = &op();
  job.shape = {"64x64", {{"M", std::int64_t{64}}, {"N", std::int64_t{64}}}, {}, {{"T", DType::kF32}}};
  job.backends = {"cpu"};
  job.contract = Tier::kHighPrecision;
  job.device = cpu_;
  job.pack = *Pack::open(folder_ / "out.ofpack", trust);
  auto store = Store::open(folder_ / "empty");
  const auto tuned = tune_request(job, *store);
  ASSERT_FALSE(tuned);
  EXPECT_NE(tuned.error().message.find("the pack lacks"), std::string::npos) << tuned.error().message;
}

TEST(StratifiedSample, HasEveryValueAndIsTheSameEachTime) {
  std::vector<Variant> space;
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      Variant variant;
      variant.values = {{"A", std::int64_t{a}}, {"B", std::int64_t{b}}};
      space.push_back(variant);
    }
  }
  const auto sample = stratified_sample(space, 16);
  ASSERT_EQ(sample.size(), 16u);
  std::set<std::string> values, names;
  for (const Variant& variant : sample) {
    names.insert(to_string(variant));
    for (const auto& [name, value] : variant.values) values.insert(name + to_string(value));
  }
  EXPECT_EQ(values.size(), 16u);
  EXPECT_EQ(names.size(), 16u);
  std::reverse(space.begin(), space.end());
  std::set<std::string> again;
  for (const Variant& variant : stratified_sample(space, 16)) again.insert(to_string(variant));
  EXPECT_EQ(again, names);
  EXPECT_EQ(stratified_sample(space, 0).size(), 64u);
  EXPECT_EQ(stratified_sample(space, 1).size(), 1u);
}

}  // namespace
}  // namespace opforge
