// An operator in a folder of its own, for tests of toolchains and of the forge: y = alpha * x + b
// by rows, b optional.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "forge/catalogue.hpp"
#include "forge/compile.hpp"
#include "runtime/seal.hpp"
#include "toolchain/source.hpp"

namespace opforge::test {

inline void put(const Path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Sets an environment variable until the end of a scope; an empty value unsets it.
class Setting {
 public:
  Setting(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) {
      old_ = old;
      had_ = true;
    }
    value.empty() ? unsetenv(name_.c_str()) : setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Setting() { had_ ? setenv(name_.c_str(), old_.c_str(), 1) : unsetenv(name_.c_str()); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  std::string name_, old_;
  bool had_ = false;
};

constexpr std::string_view kScaleCpu = R"(
#include "helper.hpp"
#include "opforge_types.hpp"

template <class V>
void scale_rows(const void* x, const void* b, void* y, long long n, long long x_stride, long long y_stride, float alpha,
                int64_t begin, int64_t end) {
  using T = typename V::T;
  using namespace opforge::cpu;
  for (int64_t row = begin; row < end; row++) {
    const T* from = static_cast<const T*>(x) + row * x_stride;
    T* to = static_cast<T*>(y) + row * y_stride;
    for (long long i = 0; i < n; i++) {
      float value = alpha * to_f32(from[i]) * kHelperFactor;
      if (V::negate) value = -value;
      if (b != nullptr) value += to_f32(static_cast<const T*>(b)[i]);
      to[i] = from_f32<T>(value);
    }
  }
}
)";

constexpr std::string_view kScaleReference = R"(
#include "operator/reference.hpp"

namespace opforge {
void scale_rows_reference(ReferenceCall& call) {
  const ReferenceTensor& x = call.tensors.at("x");
  const ReferenceTensor& b = call.tensors.at("b");
  ReferenceTensor& y = call.tensors.at("y");
  const double alpha = std::get<double>(call.attributes.at("alpha"));
  const double sign = std::get<std::int64_t>(call.attributes.at("negate")) != 0 ? -1.0 : 1.0;
  const std::int64_t n = std::get<std::int64_t>(call.dims.at("N"));
  y.condition.resize(y.values.size());
  for (std::size_t i = 0; i < x.values.size(); i++) {
    const double scaled = sign * alpha * x.values[i], added = b.present ? b.values[i % std::size_t(n)] : 0.0;
    y.values[i] = scaled + added;
    y.condition[i] = (scaled < 0 ? -scaled : scaled) + (added < 0 ? -added : added);
  }
}
}  // namespace opforge
)";

inline void scale_rows_direct(ReferenceCall& call) {
  const auto& x = call.tensors.at("x");
  const auto& b = call.tensors.at("b");
  auto& y = call.tensors.at("y");
  const double alpha = std::get<double>(call.attributes.at("alpha"));
  const double sign = std::get<std::int64_t>(call.attributes.at("negate")) != 0 ? -1.0 : 1.0;
  const auto n = static_cast<std::size_t>(std::get<std::int64_t>(call.dims.at("N")));
  y.condition.resize(y.values.size());
  for (std::size_t i = 0; i < x.values.size(); i++) {
    const double scaled = sign * alpha * x.values[i], added = b.present ? b.values[i % n] : 0.0;
    y.values[i] = scaled + added;
    y.condition[i] = std::fabs(scaled) + std::fabs(added);
  }
}

inline Binding bind(std::string name, ParamType type, std::string value) {
  Binding binding;
  binding.name = std::move(name);
  binding.type = type;
  binding.value = std::move(value);
  return binding;
}

// Writes the sources below `folder` and returns the declaration, as add_operator() leaves it.
inline Operator scale_rows(const Path& folder, std::string_view cpu = kScaleCpu) {
  put(folder / "cpu.cc", cpu);
  put(folder / "helper.hpp", "#pragma once\ninline constexpr float kHelperFactor = 1.0f;\n");
  put(folder / "reference.cc", kScaleReference);
  Operator op;
  op.signature.name = "demo.scale_rows";
  op.signature.tensors = {{"x", {"...M", "N"}, "T", Access::kRead, false, {}},
                          {"b", {"N"}, "T", Access::kRead, true, {}},
                          {"y", {"...M", "N"}, "T", Access::kWrite, false, {"x"}}};
  AttrArg alpha;
  alpha.name = "alpha";
  alpha.default_value = 2.0;
  AttrArg negate;
  negate.name = "negate";
  negate.type = AttrType::kBool;
  negate.default_value = std::int64_t{0};
  negate.baked = true;
  op.signature.attributes = {alpha, negate};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}};
  op.signature.backend_priority = {"cpu"};
  op.default_contract(Tier::kHighPrecision);
  op.description = "scales rows";
  op.formula = "y = alpha * x + b";
  op.tolerances = {{2, 0}, {1, 4}};
  op.work = {"M*N*T.itemsize", "M*N*T.itemsize", "2*M*N"};
  op.reference = &scale_rows_direct;
  op.reference_source = "reference.cc";
  op.folder = folder.string();
  op.cases = {{"small", {{"M", std::int64_t{5}}, {"N", std::int64_t{33}}}, {}, 7}};

  KernelDecl kernel;
  kernel.id = "scale_rows.cpu";
  kernel.description = "one row at a time";
  kernel.backend = "cpu";
  kernel.tier = Tier::kHighPrecision;
  kernel.sources = {"cpu.cc"};
  kernel.tunables = {{"GRAIN", {1, 4, 16, 64}, "M / 64", false, false}};
  LaunchStep step;
  step.entry = "scale_rows";
  step.bindings = {bind("x", ParamType::kPtr, "x"),
                   bind("b", ParamType::kPtr, "b"),
                   bind("y", ParamType::kPtr, "y"),
                   bind("n", ParamType::kI64, "N"),
                   bind("x_stride", ParamType::kI64, "x.stride0"),
                   bind("y_stride", ParamType::kI64, "y.stride0"),
                   bind("alpha", ParamType::kF32, "alpha")};
  step.grid[0] = "M";
  step.block[0] = "GRAIN";
  kernel.launch.steps = {step};
  kernel.launch.guards = {{"x.stride1 == 1 && y.stride1 == 1 && (!b.present || b.stride0 == 1)",
                           "the last dim is not contiguous"}};
  op.kernels = {kernel};
  return op;
}

inline Variant cpu_variant(const Operator& op, std::string target = "x86-64-v2",
                           DType dtype = DType::kF32) {
  Variant variant;
  variant.op = op.signature.name;
  variant.kernel = op.kernels.front().id;
  variant.backend = "cpu";
  variant.tier = op.kernels.front().tier;
  variant.target = std::move(target);
  variant.dtypes = {{"T", dtype}};
  variant.values = {{"GRAIN", std::int64_t{4}}};
  variant.baked = {{"negate", std::int64_t{0}}};
  return variant;
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() : dir_(*TempDir::create(std::filesystem::temp_directory_path(), "opforge-test")) {}
  const Path& path() const { return dir_.path(); }
  Path operator/(std::string_view name) const { return dir_.path() / name; }

 private:
  TempDir dir_;
};

}  // namespace opforge::test
