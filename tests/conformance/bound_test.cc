// The declared bounds are tight enough to fail what lies just beyond them, for every operator and
// dtype: results of the double reference, moved to just inside and just outside the bound.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "conformance/cells.hpp"
#include "verify/judge.hpp"

namespace opforge::conformance {
namespace {

double rounded(double value, DType dtype) {
  std::uint64_t slot = 0;
  store_from_double(&slot, dtype, value);
  return load_as_double(&slot, dtype);
}

// The next value of `dtype` above `value`.
double next_above(double value, DType dtype) {
  double step = ulp_at(value, dtype) * 0.26;  // a binade below, values lie half as far apart
  double next = value;
  while (next <= value) next = rounded(value + step, dtype), step *= 1.3;
  return next;
}

// The last value of `dtype` above `reference` that is within `limit` of it, or the first that is
// not. Found from the limit, not by steps from the reference: there may be billions.
double placed(double reference, double limit, DType dtype, bool inside) {
  double value = rounded(reference, dtype);
  if (std::abs(value - reference) > limit) return value;  // rounding alone leaves the bound
  value = rounded(reference + limit, dtype);
  while (value - reference > limit) value = -next_above(-value, dtype);
  double next = next_above(value, dtype);
  for (; next - reference <= limit; next = next_above(value, dtype)) value = next;
  return inside ? value : next;
}

class Bounds : public testing::TestWithParam<Cell> {};

TEST_P(Bounds, AreExact) {
  const Cell& cell = GetParam();
  const Operator& op = *catalogue().find(cell.op);
  Trial trial;
  trial.name = "bounds";
  const auto symbols = dim_symbols(op.signature);
  const std::int64_t extent = symbols.size() > 3 ? 6 : 33;  // tensors of many dims stay small
  for (const std::string& symbol : symbols) trial.dims[symbol] = extent;
  trial.dtypes = cell.dtypes;
  trial.seed = 5;
  auto memory = TrialMemory::make(op, trial, *find_device_api(DeviceKind::kCpu), {});
  ASSERT_TRUE(memory) << memory.error().message;
  const auto reference = memory->reference();
  ASSERT_TRUE(reference);
  const Bound bound = op.tolerances.at(cell.tier);
  for (const bool inside : {true, false}) {
    ASSERT_TRUE(memory->reset());
    for (std::size_t i = 0; i < memory->views().size(); ++i) {
      const TensorArg& arg = op.signature.tensors[i];
      if (arg.access == Access::kRead || !memory->tensors()[i].present()) continue;
      const TensorView& view = memory->views()[i];
      const ReferenceTensor& expected = reference->tensors.at(arg.name);
      for (std::size_t e = 0; e < expected.values.size(); ++e) {
        const double value = expected.values[e];
        const double condition =
            e < expected.condition.size() ? expected.condition[e] : std::abs(value);
        // One element outside is enough to fail; all others are right.
        const bool out = !inside && e == expected.values.size() / 2;
        store_from_double(
            static_cast<char*>(view.data) + e * itemsize(view.dtype), view.dtype,
            placed(value, bound.limit(value, condition, view.dtype), view.dtype, !out));
      }
    }
    const auto verdict = judge(op, *memory, bound);
    ASSERT_TRUE(verdict) << verdict.error().message;
    if (inside)
      EXPECT_EQ(verdict->problem, "");
    else
      EXPECT_NE(verdict->problem.find("1 of "), std::string::npos) << verdict->problem;
  }
}

INSTANTIATE_TEST_SUITE_P(, Bounds, testing::ValuesIn(all_cells()),
                         [](const testing::TestParamInfo<Cell>& info) {
                           return info.param.name();
                         });

}  // namespace
}  // namespace opforge::conformance
