// reduction.reduce_sum: the declaration.
#include "ops/row_kernels.hpp"

namespace opforge {

void reduce_sum_reference(ReferenceCall& call);
std::vector<Case> reduce_sum_cases();

namespace {

const rows::RowTensors kTensors{{"x"}, {}};

std::vector<Binding> bindings(const std::vector<Binding>& sizes) {
  std::vector<Binding> all = {rows::pointer("x"), rows::pointer("y")};
  all.insert(all.end(), sizes.begin(), sizes.end());
  rows::add_strides(all, "x");
  all.push_back(rows::i64("y_stride", "y.stride0"));
  return all;
}

KernelDecl cuda_kernel(std::string id, std::string description, Tier tier) {
  KernelDecl kernel{
      .id = std::move(id), .description = std::move(description), .backend = "cuda", .tier = tier};
  kernel.sources = {"cuda.cu"};
  kernel.tunables = rows::cuda_row_tunables(tier);
  kernel.constraints = rows::cuda_row_constraints();
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  LaunchStep step{.entry = "reduce_sum"};
  step.bindings = bindings({rows::i64("rows", "M"), rows::i64("columns", "N")});
  step.grid[0] = rows::cuda_row_grid();
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cuda_row_guards(kTensors);
  kernel.reason = tier == Tier::kDeterministic
                      ? rows::fixed_order_reason()
                      : LowLevelReason{ReasonKind::kMissingPrimitive,
                                       "rows of any strides, and a row without columns",
                                       {}};
  return kernel;
}

KernelDecl cpu_kernel() {
  KernelDecl kernel{.id = "reduce_sum.cpu.row",
                    .description = "f32 lanes over a chunk, chunks in double",
                    .backend = "cpu",
                    .tier = Tier::kDeterministic};
  kernel.sources = {"cpu.cc"};
  kernel.tunables = rows::cpu_row_tunables(2048);
  kernel.constraints = rows::cpu_row_constraints();
  LaunchStep step{.entry = "reduce_sum"};
  step.bindings = bindings({rows::i64("columns", "N")});
  step.grid[0] = "M";
  step.block[0] = rows::cpu_row_grain();
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cpu_row_guards(kTensors);
  return kernel;
}

// Sums in double: no partial sum overflows.
KernelDecl tilelang_kernel() {
  KernelDecl kernel = rows::tilelang_row_kernel("reduce_sum", {{"x"}, {}}, "y");
  kernel.tunables.push_back({"BLOCK", {256, 512, 1024, 2048, 4096}, "next_pow2(N)", true, false});
  kernel.tunables.push_back({"THREADS", {32, 64, 128, 256, 512}, "BLOCK / 8", true, false});
  kernel.constraints = {"BLOCK <= 16 * THREADS", "BLOCK >= 4 * THREADS"};
  return kernel;
}

}  // namespace

Operator opforge_operator_reduction_reduce_sum() {
  Operator op;
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.description = "sum over the last dim";
  op.formula = "y[m] = sum_n x[m,n]";
  op.signature.name = "reduction.reduce_sum";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y", .dims = {"...M"}, .dtype = "T", .access = Access::kWrite}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = {.a = 0.5, .b = 20},
                   .high_precision = {.a = 0.5, .b = 20}};  // derived in README.md
  op.work = {"M * N * T.itemsize", "M * T.itemsize", "M * N"};
  op.reference = &reduce_sum_reference;
  op.reference_source = "reference.cc";
  op.kernels = {
      cuda_kernel("reduce_sum.cuda.row", "a group of threads a row, in registers",
                  Tier::kHighPrecision),
      cuda_kernel("reduce_sum.cuda.fixed",
                  "the same with a fixed number of threads a row; any strides and widths",
                  Tier::kDeterministic),
      tilelang_kernel(), cpu_kernel(),
      rows::opencl_row_kernel(
          {.entry = "reduce_sum", .pointers = {"x", "y"}, .tensors = {{"x"}, {"y"}}}, kTensors)};
  op.cases = reduce_sum_cases();
  op.data_contracts = {{"cuda",
                        "fastest where rows start at 16-byte boundaries and columns are "
                        "contiguous; any strides work"},
                       {"cpu", "fastest where columns are contiguous; any strides work"},
                       {"opencl", "fastest where columns are contiguous; any strides work"}};
  return op;
}

}  // namespace opforge
