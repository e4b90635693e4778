#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "operator/signature.hpp"

namespace opforge {
namespace {

// y[...M,N] = f(x[...M,N], w[N]; bias[N] optional), pairs [...M,2*N] would be another tensor of an
// operator.
Signature row_signature() {
  Signature s;
  s.name = "norm.test_norm";
  s.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
               {.name = "w", .dims = {"N"}, .dtype = "W"},
               {.name = "bias", .dims = {"N"}, .dtype = "W", .optional = true},
               {.name = "y",
                .dims = {"...M", "N"},
                .dtype = "T",
                .access = Access::kWrite,
                .may_alias = {"x"}}};
  s.attributes = {{.name = "eps",
                   .type = AttrType::kFloat,
                   .default_value = Value{1e-6},
                   .min = 0.0,
                   .max = 1.0},
                  {.name = "groups",
                   .type = AttrType::kInt,
                   .default_value = Value{std::int64_t{1}},
                   .min = 1.0},
                  {.name = "zero_centered",
                   .type = AttrType::kBool,
                   .default_value = Value{std::int64_t{0}},
                   .baked = true},
                  {.name = "mode",
                   .type = AttrType::kText,
                   .default_value = Value{std::string("erf")},
                   .choices = {"erf", "tanh"}}};
  s.dtypes = {{{"T", DType::kF32}, {"W", DType::kF32}},
              {{"T", DType::kBF16}, {"W", DType::kBF16}},
              {{"T", DType::kBF16}, {"W", DType::kF32}}};
  s.reduced_dims = {"N"};
  return s;
}

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

TensorView view(std::uintptr_t address, std::vector<std::int64_t> dims, DType dtype = DType::kF32) {
  return TensorView::contiguous(at(address), dtype, dims);
}

TensorView strided(std::uintptr_t address, std::vector<std::int64_t> dims,
                   std::vector<std::int64_t> strides, DType dtype = DType::kF32) {
  TensorView v = view(address, dims, dtype);
  std::copy(strides.begin(), strides.end(), v.strides.begin());
  return v;
}

constexpr std::uintptr_t kX = 0x10000000, kW = 0x20000000, kB = 0x30000000, kY = 0x40000000;

// The arguments of a good call, to be changed by each test.
std::vector<TensorView> good(std::int64_t m = 4, std::int64_t n = 8) {
  return {view(kX, {m, n}), view(kW, {n}), TensorView::absent(), view(kY, {m, n})};
}

Result<BoundCall> try_bind(const std::vector<TensorView>& tensors,
                           const ValueMap& attributes = {}) {
  return bind_call(row_signature(), tensors, attributes);
}

void expect_error(const Result<BoundCall>& result, Code code, std::string_view part) {
  ASSERT_FALSE(result) << "expected an error with: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find("norm.test_norm"), std::string::npos)
      << result.error().message;
}
constexpr Code kBad = Code::kInvalidArgument;

TEST(BindCall, DimsDtypesAndDefaults) {
  const auto call = try_bind(good());
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->dims, (ValueMap{{"M", std::int64_t{4}}, {"N", std::int64_t{8}}}));
  EXPECT_EQ(to_string(call->dtypes), "T=f32,W=f32");
  EXPECT_EQ(call->attributes, (ValueMap{{"eps", 1e-6},
                                        {"groups", std::int64_t{1}},
                                        {"mode", std::string("erf")},
                                        {"zero_centered", std::int64_t{0}}}));
  EXPECT_FALSE(call->tensors[2].present());
}

TEST(BindCall, LeadingDimsCollapse) {
  auto tensors = good();
  tensors[0] = view(kX, {2, 3, 5, 8});
  tensors[3] = strided(kY, {2, 3, 5, 8}, {150 * 2, 50 * 2, 10 * 2, 1});  // padded rows, uniform
  const auto call = try_bind(tensors);
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->dims.at("M"), Value{std::int64_t{30}});
  EXPECT_EQ(call->tensors[0].rank, 2);
  EXPECT_EQ(call->tensors[0].strides[0], 8);
  EXPECT_EQ(call->tensors[3].dims[0], 30);
  EXPECT_EQ(call->tensors[3].strides[0], 20);
}

TEST(BindCall, ADimOfOneDoesNotStopCollapsing) {
  auto tensors = good();
  tensors[0] = strided(kX, {2, 1, 3, 8}, {24, 999, 8, 1});
  tensors[3] = view(kY, {2, 1, 3, 8});
  const auto call = try_bind(tensors);
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->tensors[0].dims[0], 6);
  EXPECT_EQ(call->tensors[0].strides[0], 8);
}

TEST(BindCall, BroadcastAndReversedInputRowsCollapse) {
  auto tensors = good();
  tensors[0] = strided(kX, {2, 2, 8}, {0, 0, 1});
  tensors[3] = view(kY, {2, 2, 8});
  ASSERT_TRUE(try_bind(tensors));
  EXPECT_EQ(try_bind(tensors)->tensors[0].strides[0], 0);
  tensors[0] = strided(kX + 4096, {2, 2, 8}, {-16, -8, 1});
  ASSERT_TRUE(try_bind(tensors));
  EXPECT_EQ(try_bind(tensors)->tensors[0].strides[0], -8);
}

TEST(BindCall, NoLeadingDimsGiveOneRow) {
  const auto call = try_bind({view(kX, {8}), view(kW, {8}), TensorView::absent(), view(kY, {8})});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->dims.at("M"), Value{std::int64_t{1}});
  EXPECT_EQ(call->tensors[0].rank, 2);
  EXPECT_EQ(call->tensors[0].dims[1], 8);
  EXPECT_EQ(call->tensors[0].strides[0], 8);
}

TEST(BindCall, RankZeroCountsAsOneElement) {
  const auto call = try_bind({view(kX, {}), view(kW, {}), TensorView::absent(), view(kY, {})});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->dims, (ValueMap{{"M", std::int64_t{1}}, {"N", std::int64_t{1}}}));
  EXPECT_EQ(call->tensors[1].rank, 1);
}

TEST(BindCall, StridesOfDimsOfOneAreCanonical) {
  auto tensors = good(1, 8);
  tensors[0] = strided(kX, {1, 8}, {1185, 1});
  tensors[3] = strided(kY, {1, 8}, {-3, 1});
  auto call = try_bind(tensors);
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->tensors[0].strides[0], 8);
  EXPECT_EQ(call->tensors[3].strides[0], 8);
  tensors = good(4, 1);
  tensors[0] = strided(kX, {4, 1}, {5, 77});
  call = try_bind(tensors);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->tensors[0].strides[0], 5);
  EXPECT_EQ(call->tensors[0].strides[1], 1);
}

TEST(BindCall, EmptyTensorsAreValid) {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{0, 8}, {4, 0}, {0, 0}}) {
    auto tensors = good(m, n);
    tensors[0].data = nullptr;
    tensors[3].data = nullptr;
    const auto call = try_bind(tensors);
    ASSERT_TRUE(call) << call.error().message;
    EXPECT_EQ(call->dims.at("M"), Value{m});
  }
  // Nothing to collapse, whatever the strides.
  auto tensors = good();
  tensors[0] = strided(kX, {3, 0, 8}, {7, 5, 1});
  tensors[3] = view(kY, {3, 0, 8});
  EXPECT_TRUE(try_bind(tensors));
}

TEST(BindCall, LeadingDimsThatCannotCollapseAreUnavailable) {
  auto tensors = good();
  tensors[0] = strided(kX, {2, 3, 8}, {100, 8, 1});
  tensors[3] = view(kY, {2, 3, 8});
  expect_error(try_bind(tensors), Code::kUnavailable,
               "the leading dims [2,3] of x with strides [100,8] cannot be seen as one dim M: make "
               "x contiguous");
}

TEST(BindCall, Refusals) {
  struct Row {
    const char* what;
    std::function<void(std::vector<TensorView>&)> change;
    const char* part;
  };
  const Row rows[] = {
      {"dims disagree", [](auto& t) { t[1] = view(kW, {7}); }, "N is 8 in x but 7 in w"},
      {"rows disagree",
       [](auto& t) {
         t[3] = view(kY, {5, 8});
       },
       "the leading dims (...M) are [4] in x but [5] in y"},
      {"leading dims disagree",
       [](auto& t) {
         t[0] = view(kX, {2, 2, 8});
       },
       "the leading dims (...M) are [2,2] in x but [4] in y"},
      {"rank of w",
       [](auto& t) {
         t[1] = view(kW, {1, 8});
       },
       "w must have rank 1 ([N]), not 2 ([1,8])"},
      {"count", [](auto& t) { t.pop_back(); },
       "takes 4 tensors (x, w, bias (optional), y) but 3 came"},
      {"missing", [](auto& t) { t[1] = TensorView::absent(); },
       "tensor w is missing and not optional"},
      {"device",
       [](auto& t) {
         t[1].device = {DeviceKind::kCuda, 1};
       },
       "x is on cpu:0 but w is on cuda:1"},
      {"ordinal",
       [](auto& t) {
         for (auto& v : t) v.device = {DeviceKind::kCuda, 0};
         t[3].device.ordinal = 1;
       },
       "x is on cuda:0 but y is on cuda:1"},
      {"dtype of one variable",
       [](auto& t) {
         t[3] = view(kY, {4, 8}, DType::kBF16);
       },
       "x and y have one dtype, T: it is f32 in x but bf16 in y; allowed: T=f32,W=f32; "
       "T=bf16,W=bf16; T=bf16,W=f32"},
      {"combination", [](auto& t) { t[1] = view(kW, {8}, DType::kBF16); },
       "dtypes T=f32,W=bf16 are not supported; allowed: T=f32,W=f32;"},
      {"negative size", [](auto& t) { t[0].dims[0] = -4; }, "x"},
      {"overflowing size", [](auto& t) { t[0].dims[0] = t[0].dims[1] = std::int64_t{1} << 40; },
       "x"},
      {"null", [](auto& t) { t[1].data = nullptr; }, "w"},
      {"overlap", [](auto& t) { t[3].data = at(kX + 64); }, "output y (f32[4,8]"},
      {"overlap with w", [](auto& t) { t[3].data = at(kW); },
       "on cpu:0): give it memory of its own"},
      {"self-overlap", [](auto& t) { t[3].strides[0] = 0; }, "output y"},
      {"self-overlap", [](auto& t) { t[3].strides[0] = 4; }, "has elements that share memory"},
      {"alias of other strides",
       [](auto& t) {
         t[0] = strided(kX, {4, 8}, {16, 1});
         t[3] = strided(kX, {4, 8}, {8, 1});
       },
       "or exactly the same memory with the same dims and strides"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    auto tensors = good();
    row.change(tensors);
    expect_error(try_bind(tensors), kBad, row.part);
  }
}

TEST(BindCall, DeclaredAliasIsAllowed) {
  auto tensors = good();
  tensors[3] = tensors[0];
  EXPECT_TRUE(try_bind(tensors));
  // Rows of one: the strides that the caller wrote differ, the memory does not.
  tensors = good(1, 8);
  tensors[0] = strided(kX, {1, 8}, {64, 1});
  tensors[3] = view(kX, {1, 8});
  EXPECT_TRUE(try_bind(tensors));
}

TEST(BindCall, InterleavedColumnBlocksDoNotOverlap) {
  // x is columns 0..7 and y columns 8..15 of one [4,16] matrix.
  auto tensors = good();
  tensors[0] = strided(kX, {4, 8}, {16, 1});
  tensors[3] = strided(kX + 8 * 4, {4, 8}, {16, 1});
  ASSERT_TRUE(try_bind(tensors)) << try_bind(tensors).error().message;
  tensors[3] = strided(kX + 7 * 4, {4, 8}, {16, 1});  // one column shared
  expect_error(try_bind(tensors), kBad, "overlaps x");
  tensors[3] = strided(kX + 9 * 4, {4, 8}, {16, 1});  // wraps into the next row's column 0
  expect_error(try_bind(tensors), kBad, "overlaps x");
  // Even and odd rows.
  tensors[0] = strided(kX, {4, 8}, {16, 1});
  tensors[3] = strided(kX + 3 * 16 * 4 + 8 * 4, {4, 8}, {-16, 1});
  EXPECT_TRUE(try_bind(tensors));
}

TEST(BindCall, InputsMayOverlapAndRepeat) {
  auto tensors = good();
  tensors[1] = view(kX, {8});
  tensors[2] = view(kX, {8});
  EXPECT_TRUE(try_bind(tensors));
}

TEST(BindAttributes, Conversions) {
  const auto call = try_bind(good(), {{"eps", std::int64_t{1}},
                                      {"mode", std::string("tanh")},
                                      {"zero_centered", std::int64_t{1}}});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->attributes.at("eps"), Value{1.0});
  EXPECT_EQ(call->attributes.at("mode"), Value{std::string("tanh")});
}

TEST(BindAttributes, Refusals) {
  struct Row {
    ValueMap attributes;
    const char* part;
  };
  const Row rows[] = {
      {{{"epsilon", 0.1}}, "has no attribute 'epsilon'; did you mean eps"},
      {{{"eps", 1.5}}, "attribute eps must be from 0 to 1, not 1.5"},
      {{{"eps", -1e-9}}, "attribute eps must be from 0 to 1"},
      {{{"eps", std::nan("")}}, "attribute eps must be from 0 to 1, not nan"},
      {{{"eps", std::string("small")}}, "attribute eps must be a number, not the text 'small'"},
      {{{"groups", 2.0}}, "attribute groups must be an integer, not 2.0"},
      {{{"groups", std::int64_t{0}}}, "attribute groups must be at least 1, not 0"},
      {{{"zero_centered", std::int64_t{2}}}, "attribute zero_centered must be 0 or 1, not 2"},
      {{{"zero_centered", 1.0}}, "attribute zero_centered must be 0 or 1"},
      {{{"mode", std::string("exact")}},
       "attribute mode must be one of erf, tanh, not the text 'exact'"},
      {{{"mode", std::int64_t{0}}}, "attribute mode must be one of erf, tanh, not 0"},
  };
  for (const Row& row : rows) expect_error(try_bind(good(), row.attributes), kBad, row.part);
  Signature required = row_signature();
  required.attributes[0].default_value.reset();
  expect_error(bind_call(required, good(), {}), kBad,
               "attribute eps (a number) has no default: give it");
}

TEST(BindCall, DimsThatAreExpressions) {
  Signature s = row_signature();
  s.tensors = {{.name = "x", .dims = {"...M", "2*N"}, .dtype = "T"},
               {.name = "s", .dims = {"M", "ceil_div(N, 32)"}, .dtype = "f32"},
               {.name = "g", .dims = {"groups", "4"}, .dtype = "f32"},
               {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite}};
  s.tensors[2].dims[0] = "groups + 0";
  s.dtypes = {{{"T", DType::kF32}}};
  const auto run = [&](std::int64_t wide, std::int64_t blocks, std::int64_t four) {
    return bind_call(s,
                     std::vector{view(kX, {3, 5, wide}), view(kW, {15, blocks}),
                                 view(kB, {2, four}), view(kY, {3, 5, 40})},
                     {{"groups", std::int64_t{2}}});
  };
  const auto call = run(80, 2, 4);
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->dims, (ValueMap{{"M", std::int64_t{15}}, {"N", std::int64_t{40}}}));
  expect_error(run(79, 2, 4), kBad, "dim 1 of x must be 2*N = 80, not 79");
  expect_error(run(80, 3, 4), kBad, "dim 1 of s must be ceil_div(N, 32) = 2, not 3");
  expect_error(run(80, 2, 5), kBad, "dim 1 of g must be 4 = 4, not 5");
}

TEST(CallSymbols, NameWhatExpressionsUse) {
  const Signature s = row_signature();
  auto tensors = good();
  tensors[0] = strided(kX + 4, {2, 2, 8}, {40, 20, 1}, DType::kBF16);
  tensors[3] = view(kY, {2, 2, 8}, DType::kBF16);
  const auto call = bind_call(s, tensors, {});
  ASSERT_TRUE(call) << call.error().message;
  CallSymbols symbols(s, *call);
  symbols.add("THREADS", std::int64_t{256});
  const auto value = [&](std::string_view text) {
    return *Expression::parse(text)->evaluate(symbols.lookup());
  };
  using I = std::int64_t;
  EXPECT_EQ(value("M * N"), Value{I{32}});
  EXPECT_EQ(value("T"), Value{std::string("bf16")});
  EXPECT_EQ(value("W"), Value{std::string("f32")});
  EXPECT_EQ(value("T.itemsize * 10 + W.itemsize"), Value{I{24}});
  EXPECT_EQ(value("x.dim0 * 100 + x.dim1"), Value{I{408}});
  EXPECT_EQ(value("x.stride0 * 100 + x.stride1"), Value{I{2001}});
  EXPECT_EQ(value("x.align"), Value{I{4}});
  EXPECT_EQ(value("w.align"), Value{I{256}});
  EXPECT_EQ(value("x.itemsize"), Value{I{2}});
  EXPECT_EQ(value("x.rank"), Value{I{2}});
  EXPECT_EQ(value("x.dtype == 'bf16'"), Value{I{1}});
  EXPECT_EQ(value("x.dtype_code"), Value{static_cast<I>(DType::kBF16)});
  EXPECT_EQ(value("x.present - bias.present"), Value{I{1}});
  // An absent tensor fails no guard by itself.
  EXPECT_EQ(value("bias.align % 16 == 0 && bias.stride0 == 0 && bias.dim0 == 0"), Value{I{1}});
  EXPECT_EQ(value("bias.itemsize"), Value{I{4}});
  EXPECT_EQ(value("eps"), Value{1e-6});
  EXPECT_EQ(value("THREADS"), Value{I{256}});
  EXPECT_EQ(symbols.find("nothing"), nullptr);
}

TEST(Signature, Lookups) {
  const Signature s = row_signature();
  EXPECT_EQ(find_tensor(s, "w")->dtype, "W");
  EXPECT_EQ(find_tensor(s, "q"), nullptr);
  EXPECT_EQ(find_attribute(s, "eps")->type, AttrType::kFloat);
  EXPECT_EQ(find_attribute(s, "q"), nullptr);
  EXPECT_EQ(dim_symbols(s), (std::vector<std::string>{"M", "N"}));
  EXPECT_EQ(dtype_variables(s), (std::vector<std::string>{"T", "W"}));
}

}  // namespace
}  // namespace opforge
