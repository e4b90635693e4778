// norm.rms_norm: the declaration.
#include "ops/row_kernels.hpp"

namespace opforge {

void rms_norm_reference(ReferenceCall& call);
std::vector<Case> rms_norm_cases();

namespace {

const rows::RowTensors kTensors{{"x", "y"}, {"w"}};

std::vector<Binding> bindings(const std::vector<Binding>& sizes) {
  std::vector<Binding> all = {rows::pointer("x"), rows::pointer("w"), rows::pointer("y")};
  all.insert(all.end(), sizes.begin(), sizes.end());
  all.push_back(rows::f32("eps", "eps"));
  all.push_back(rows::i64("w_stride", "w.stride0"));
  for (const char* tensor : {"x", "y"}) rows::add_strides(all, tensor);
  return all;
}

KernelDecl cuda_kernel(std::string id, std::string description, Tier tier) {
  KernelDecl kernel{
      .id = std::move(id), .description = std::move(description), .backend = "cuda", .tier = tier};
  kernel.sources = {"cuda.cu"};
  kernel.tunables = rows::cuda_row_tunables(tier);
  kernel.constraints = rows::cuda_row_constraints();
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  LaunchStep step{.entry = "rms_norm"};
  step.bindings = bindings({rows::i64("rows", "M"), rows::i64("columns", "N")});
  step.grid[0] = rows::cuda_row_grid();
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cuda_row_guards(kTensors);
  kernel.reason =
      tier == Tier::kDeterministic
          ? rows::fixed_order_reason()
          : rows::triton_gap_reason(
                "16384 x 4096 bf16: 66 us, Triton code of torch.compile on the same machine 73 us");
  return kernel;
}

KernelDecl cpu_kernel() {
  KernelDecl kernel{.id = "rms_norm.cpu.row",
                    .description = "squares of a row, then scaling it while the next row is read",
                    .backend = "cpu",
                    .tier = Tier::kDeterministic};
  kernel.sources = {"cpu.cc"};
  kernel.tunables = rows::cpu_row_tunables(2048);
  kernel.constraints = rows::cpu_row_constraints();
  LaunchStep step{.entry = "rms_norm"};
  step.bindings = bindings({rows::i64("columns", "N")});
  step.grid[0] = "M";
  step.block[0] = rows::cpu_row_grain();
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cpu_row_guards(kTensors);
  return kernel;
}

}  // namespace

Operator opforge_operator_norm_rms_norm() {
  Operator op;
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.description = "root mean square normalisation over the last dim";
  op.formula = "y[m,n] = x[m,n] / sqrt(mean_k x[m,k]^2 + eps) * (w[n] + (zero_centered ? 1 : 0))";
  op.signature.name = "norm.rms_norm";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "w", .dims = {"N"}, .dtype = "W"},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.attributes = {
      {.name = "eps", .type = AttrType::kFloat, .default_value = Value{1e-6}, .min = 0.0},
      {.name = "zero_centered",
       .type = AttrType::kBool,
       .default_value = Value{std::int64_t{0}},
       .baked = true}};
  op.signature.dtypes = {{{"T", DType::kF32}, {"W", DType::kF32}},
                         {{"T", DType::kBF16}, {"W", DType::kBF16}},
                         {{"T", DType::kBF16}, {"W", DType::kF32}},
                         {{"T", DType::kF16}, {"W", DType::kF16}},
                         {{"T", DType::kF16}, {"W", DType::kF32}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = {.a = 0.5, .b = 16},
                   .high_precision = {.a = 0.5, .b = 16}};  // derived in README.md
  op.work = {"M * N * T.itemsize + N * W.itemsize", "M * N * T.itemsize", "4 * M * N"};
  op.reference = &rms_norm_reference;
  op.reference_source = "reference.cc";
  op.kernels = {
      cuda_kernel("rms_norm.cuda.row", "a group of threads a row, in registers",
                  Tier::kHighPrecision),
      cuda_kernel("rms_norm.cuda.fixed",
                  "the same with a fixed number of threads a row; any strides and widths",
                  Tier::kDeterministic),
      rows::triton_row_kernel("rms_norm", kTensors, {rows::f32("eps", "eps")}),
      rows::cutedsl_row_kernel("rms_norm", {"x", "w", "y"}, kTensors, {rows::f32("eps", "eps")}),
      cpu_kernel(),
      rows::opencl_row_kernel({.entry = "rms_norm",
                               .pointers = {"x", "w", "y"},
                               .scalars = {rows::f32("eps", "eps")},
                               .tensors = kTensors},
                              kTensors)};
  op.cases = rms_norm_cases();
  op.data_contracts = {{"cuda",
                        "fastest where rows start at 16-byte boundaries and columns are "
                        "contiguous; any strides work"},
                       {"cpu", "fastest where columns are contiguous; any strides work"},
                       {"opencl", "fastest where columns are contiguous; any strides work"}};
  return op;
}

}  // namespace opforge
