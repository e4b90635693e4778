// linear.gemm: the declaration.
#include "operator/operator.hpp"

namespace opforge {

void gemm_reference(ReferenceCall& call);

namespace {

std::vector<Binding> bindings() {
  std::vector<Binding> all;
  for (const char* name : {"x", "w", "bias", "y"})
    all.push_back({.name = name, .type = ParamType::kPtr, .value = name});
  const auto size = [&](const char* name, const char* value) {
    all.push_back({.name = name, .type = ParamType::kI64, .value = value});
  };
  size("rows", "M"), size("columns", "N"), size("depth", "K");
  size("x_row", "x.stride0"), size("x_depth", "x.stride1");
  size("w_column", "w.stride0"), size("w_depth", "w.stride1");
  size("bias_stride", "bias.stride0");
  size("y_row", "y.stride0"), size("y_column", "y.stride1");
  all.push_back({.name = "activation",
                 .type = ParamType::kI32,
                 .value = "activation == 'gelu' ? 1 : activation == 'gelu_tanh' ? 2 : "
                          "activation == 'silu' ? 3 : 0"});
  return all;
}

KernelDecl kernel(std::string id, std::string backend, std::string source, std::string entry,
                  std::string description, Tier tier, std::string grid, std::string block) {
  KernelDecl kernel{.id = std::move(id),
                    .description = std::move(description),
                    .backend = std::move(backend),
                    .tier = tier};
  kernel.sources = {std::move(source)};
  LaunchStep step{.entry = std::move(entry)};
  step.bindings = bindings();
  step.grid[0] = std::move(grid);
  step.block[0] = std::move(block);
  kernel.launch.steps = {step};
  return kernel;
}

KernelDecl tensor_core_kernel() {
  KernelDecl mma = kernel("gemm.cuda.mma", "cuda", "cuda.cu", "gemm_mma",
                          "tensor cores: tiles of 64 x 128 x 32 through shared memory",
                          Tier::kHighPrecision, "ceil_div(M, 64) * ceil_div(N, 128)", "256");
  mma.dtypes = {{{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  // 1: rows of w lie along K; 2: along N.
  mma.tunables = {{.name = "LAYOUT", .values = {1, 2}, .initial = "1", .specialisation = true}};
  mma.requires_any = {{DeviceKind::kCuda, 80, 0}};
  mma.launch.guards = {
      {"x.stride1 == 1 && K % 8 == 0 && x.align >= 16 && (M <= 1 || x.stride0 % 8 == 0)",
       "rows of x do not start and end at 16-byte boundaries"},
      {"LAYOUT != 1 || (w.stride1 == 1 && w.align >= 16 && (N <= 1 || w.stride0 % 8 == 0))",
       "w does not lie along K in rows that start at 16-byte boundaries"},
      {"LAYOUT != 2 || (w.stride0 == 1 && N % 8 == 0 && w.align >= 16 && (K <= 1 || w.stride1 % 8 "
       "== 0))",
       "w does not lie along N in rows that start and end at 16-byte boundaries"}};
  return mma;
}

Case gemm_case(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, unsigned uses) {
  return {.name = name, .dims = {{"M", m}, {"N", n}, {"K", k}}, .uses = uses};
}

std::vector<Case> cases() {
  constexpr auto kTest = unsigned(CaseUse::kTest), kBench = unsigned(CaseUse::kBench),
                 kBuild = unsigned(CaseUse::kBuild);
  return {gemm_case("3x5x7", 3, 5, 7, kTest),
          gemm_case("65x130x264", 65, 130, 264, kTest),
          gemm_case("129x72x1000", 129, 72, 1000, kTest),
          gemm_case("1x512x513", 1, 512, 513, kTest),
          gemm_case("2048x2048x2048", 2048, 2048, 2048, kBuild | kBench),
          gemm_case("16x4096x4096", 16, 4096, 4096, kBench),
          gemm_case("8192x8192x8192", 8192, 8192, 8192, kBench)};
}

}  // namespace

Operator opforge_operator_linear_gemm() {
  Operator op;
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.description = "linear layer: x w^T + bias, with an activation";
  op.formula = "y[m,n] = f(sum_k x[m,k] w[n,k] + bias[n])";
  op.signature.name = "linear.gemm";
  op.signature.tensors = {
      {.name = "x", .dims = {"...M", "K"}, .dtype = "T"},
      {.name = "w", .dims = {"N", "K"}, .dtype = "T"},
      {.name = "bias", .dims = {"N"}, .dtype = "T", .optional = true},
      {.name = "y", .dims = {"...M", "N"}, .dtype = "T", .access = Access::kWrite}};
  op.signature.attributes = {{.name = "activation",
                              .type = AttrType::kText,
                              .default_value = "none",
                              .choices = {"none", "gelu", "gelu_tanh", "silu"}}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"K"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = {.a = 0.5, .b = 72},
                   .high_precision = {.a = 0.5, .b = 72}};  // derived in README.md
  op.work = {"(M * K + N * K + N) * T.itemsize", "M * N * T.itemsize", "2 * M * N * K"};
  op.reference = &gemm_reference;
  op.reference_source = "reference.cc";
  op.kernels = {
      tensor_core_kernel(),
      kernel("gemm.cuda.fixed", "cuda", "cuda.cu", "gemm", "tiles of 64 x 64 in f32; any strides",
             Tier::kDeterministic, "ceil_div(M, 64) * ceil_div(N, 64)", "256"),
      kernel("gemm.cpu", "cpu", "cpu.cc", "gemm", "packed tiles of 64 x 64 x 128, Highway vectors",
             Tier::kDeterministic, "ceil_div(M, 64) * ceil_div(N, 64)", "1")};
  op.cases = cases();
  op.data_contracts = {
      {"cuda", "tensor cores where rows of x and w (along K or N) are aligned to 16 bytes"},
      {"cpu", "any strides; fastest where x and w lie along K"}};
  return op;
}

}  // namespace opforge
