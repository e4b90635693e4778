// The helpers that CPU kernels are written with, as compiled for each instruction set that this CPU
// has: conversions and masks against the element functions of src/tensor, exp against libm in
// double.
#include <bit>
#include <cmath>
#include <limits>

#include "backends/code_fixture.hpp"
#include "target/target.hpp"

namespace opforge {
namespace {

// kind 0: copy by Pairs with tails; 1: exp; 2: short exp; 3: widen x (type V::T) to f32 in load_as
// order and store as V::T; 4: y[0] = {sum of lanes, max with NaN}.
constexpr std::string_view kProbe = R"(
#include "opforge_cpu.hpp"
namespace {
using namespace opforge;
using namespace opforge::cpu;
template <class T>
void probe_as(const void* x, const void* w, void* y, long long n, int kind) {
  const T* from = static_cast<const T*>(x);
  const float* weight = static_cast<const float*>(w);
  T* to = static_cast<T*>(y);
  Pair sum = both(0.0f), top = both(-__builtin_inff());
  for (long long i = 0; i < n; i += kPair) {
    const long long rest = n - i;
    prefetch<T, 256>(from + i);
    Pair v = rest < kPair ? load_n(from + i, rest) : load(from + i);
    if (kind == 1) v = cpu::exp(v);
    if (kind == 2) v = cpu::exp<true>(v);
    if (kind == 3) v = rest < kPair ? load_as_n<T>(weight + i, rest) : load_as<T>(weight + i);
    sum = add(sum, v);
    top = max_nan(top, v);
    if (rest < kPair) store_n(to + i, v, rest);
    else if (can_stream(to + i)) store<true>(to + i, v);
    else store(to + i, v);
  }
  if (kind == 4) {
    static_cast<float*>(y)[0] = lane_sum(sum);
    static_cast<float*>(y)[1] = any_nan(top) ? __builtin_nanf("") : lane_max(top);
  }
  fence_streams();
}
}  // namespace
template <class V>
void probe(const void* x, const void* w, void* y, long long n, int kind, int dtype, int64_t, int64_t) {
  if (dtype == 1) probe_as<float>(x, w, y, n, kind);
  if (dtype == 2) probe_as<opforge::f16>(x, w, y, n, kind);
  if (dtype == 3) probe_as<opforge::bf16>(x, w, y, n, kind);
}
)";

Operator probe_operator(const Path& folder) {
  Operator op = test::scale_rows(folder);
  test::put(folder / "probe.cc", kProbe);
  KernelDecl& kernel = op.kernels.front();
  kernel.sources = {"probe.cc"};
  LaunchStep& step = kernel.launch.steps.front();
  step.entry = "probe";
  step.bindings = {
      test::bind("x", ParamType::kPtr, "x"),    test::bind("w", ParamType::kPtr, "b"),
      test::bind("y", ParamType::kPtr, "y"),    test::bind("n", ParamType::kI64, "N"),
      test::bind("kind", ParamType::kI32, "1"), test::bind("dtype", ParamType::kI32, "1")};
  return op;
}

class Probe {
 public:
  explicit Probe(const std::string& target) : op_(probe_operator(folder_.path())) {
    auto compiled = test::compile(op_, op_.kernels.front(), test::cpu_variant(op_, target));
    EXPECT_TRUE(compiled) << compiled.error().message;
    if (compiled)
      code_ = std::make_unique<test::OpenCode>(compiled->code, compiled->symbols.begin()->second);
  }
  bool ready() const { return code_ != nullptr && code_->function != nullptr; }
  void as(DType dtype) { dtype_ = dtype; }
  DType dtype() const { return dtype_; }
  void run(const void* x, const void* w, void* y, std::int64_t n, int kind) const {
    test::Slots slots;
    slots.add(x).add(w).add(y).add(n).add(kind).add(static_cast<int>(dtype_));
    code_->function(slots.data(), 0, 1);
  }
  std::size_t bytes() const { return itemsize(dtype_); }
  double at(const std::string& data, std::size_t i) const {
    return load_as_double(data.data() + i * bytes(), dtype_);
  }

 private:
  test::Folder folder_;
  DType dtype_ = DType::kF32;
  Operator op_;
  std::unique_ptr<test::OpenCode> code_;
};

// Every 16-bit pattern, or for f32 a walk through all exponents.
std::string patterns(DType dtype) {
  std::string data;
  if (itemsize(dtype) == 2) {
    for (unsigned i = 0; i < 65536; i++) {
      const auto bits = static_cast<std::uint16_t>(i);
      data.append(reinterpret_cast<const char*>(&bits), 2);
    }
  } else {
    for (std::uint64_t i = 0; i < (1ull << 32); i += 65521) {
      const auto bits = static_cast<std::uint32_t>(i);
      data.append(reinterpret_cast<const char*>(&bits), 4);
    }
  }
  return data;
}

void expect_elements(const Probe& probe) {
  const std::string in = patterns(probe.dtype());
  const auto n = static_cast<std::int64_t>(in.size() / probe.bytes());

  std::string out(in.size() + 64, 'x');
  probe.run(in.data(), nullptr, out.data() + 1 * probe.bytes(), n - 3,
            0);  // misaligned, with a tail
  for (std::int64_t i = 0; i < n - 3; i++) {
    const double want = probe.at(in, std::size_t(i)), got = probe.at(out, std::size_t(i) + 1);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(want))
          << "element " << i;
    }
  }
  for (std::size_t i = std::size_t(n - 2) * probe.bytes(); i < out.size(); i++)
    ASSERT_EQ(out[i], 'x') << "past the end";

  // Narrowing of f32 values, in the lane order of T.
  const std::string wide = patterns(DType::kF32);
  const auto m = static_cast<std::int64_t>(wide.size() / 4) - 1;
  std::string narrow(std::size_t(m + 1) * probe.bytes(), 'x');
  probe.run(in.data(), wide.data(), narrow.data(), std::min(m, n), 3);
  for (std::int64_t i = 0; i < std::min(m, n); i++) {
    std::uint64_t want = 0, got = 0;
    const double value = load_as_double(wide.data() + 4 * i, DType::kF32);
    store_from_double(&want, probe.dtype(), value);
    std::memcpy(&got, narrow.data() + std::size_t(i) * probe.bytes(), probe.bytes());
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(probe.at(narrow, std::size_t(i)))) << i;
    } else {
      ASSERT_EQ(got, want) << "f32 " << value;
    }
  }
}

void expect_exp(const Probe& probe) {
  const std::string in = patterns(probe.dtype());
  const auto n = static_cast<std::int64_t>(in.size() / probe.bytes());
  std::string out(in.size(), 'x');
  // exp in f32 is good to 2 ulp; its result in T adds half an ulp of rounding.
  const double allowed = probe.dtype() == DType::kF32 ? 2.0 : 0.51;
  probe.run(in.data(), nullptr, out.data(), n, 1);
  for (std::int64_t i = 0; i < n; i++) {
    const double x = probe.at(in, std::size_t(i)), got = probe.at(out, std::size_t(i)),
                 want = std::exp(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(got));
    } else if (want > largest_finite(probe.dtype())) {
      ASSERT_GE(got, largest_finite(probe.dtype())) << "exp " << x;
    } else {
      ASSERT_LE(std::abs(got - want), allowed * ulp_at(want, probe.dtype())) << "exp " << x;
    }
  }
  if (probe.dtype() != DType::kBF16) return;
  probe.run(in.data(), nullptr, out.data(), n, 2);
  for (std::int64_t i = 0; i < n; i++) {
    const double x = probe.at(in, std::size_t(i)), got = probe.at(out, std::size_t(i)),
                 want = std::exp(x);
    if (std::isnan(x) || want > largest_finite(probe.dtype())) continue;
    ASSERT_LE(std::abs(got - want), 0.6 * ulp_at(want, probe.dtype())) << "short exp " << x;
  }
}

void expect_reductions(const Probe& probe) {
  for (const std::int64_t n : {1, 3, 8, 31, 32, 33, 100}) {
    std::string in(std::size_t(n) * probe.bytes(), '\0');
    for (std::int64_t i = 0; i < n; i++)
      store_from_double(in.data() + std::size_t(i) * probe.bytes(), probe.dtype(),
                        double(i % 7) + 1);
    std::string copy(std::max<std::size_t>(in.size(), 8) + 64, '\0');
    probe.run(in.data(), nullptr, copy.data(), n, 4);
    float results[2];
    std::memcpy(results, copy.data(), 8);
    double want = 0;
    for (std::int64_t i = 0; i < n; i++) want += double(i % 7) + 1;
    EXPECT_EQ(results[0], want) << n;
    EXPECT_EQ(results[1], double(std::min<std::int64_t>(n, 7))) << n;
    store_from_double(in.data() + std::size_t(n / 2) * probe.bytes(), probe.dtype(),
                      std::numeric_limits<double>::quiet_NaN());
    probe.run(in.data(), nullptr, copy.data(), n, 4);
    std::memcpy(results, copy.data(), 8);
    EXPECT_TRUE(std::isnan(results[1])) << n;
  }
}

class CpuHeaders : public testing::TestWithParam<int> {};

TEST_P(CpuHeaders, AgreeWithElementFunctionsAndLibm) {
  if (detect_cpu().arch < GetParam()) GTEST_SKIP() << "this CPU has no x86-64-v" << GetParam();
  Probe probe("x86-64-v" + std::to_string(GetParam()));
  ASSERT_TRUE(probe.ready());
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    probe.as(dtype);
    expect_elements(probe);
    expect_exp(probe);
    expect_reductions(probe);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuHeaders, testing::Values(2, 3, 4));

}  // namespace
}  // namespace opforge
