// reduction.softmax: the declaration.
#include "ops/row_kernels.hpp"

namespace opforge {

void softmax_reference(ReferenceCall& call);
std::vector<Case> softmax_cases();

namespace {

const rows::RowTensors kTensors{{"x", "y"}, {}};

KernelDecl cuda_kernel(std::string id, std::string description, Tier tier) {
  KernelDecl kernel{
      .id = std::move(id), .description = std::move(description), .backend = "cuda", .tier = tier};
  kernel.sources = {"cuda.cu"};
  kernel.tunables = rows::cuda_row_tunables(tier);
  kernel.constraints = rows::cuda_row_constraints();
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  LaunchStep step{.entry = "softmax"};
  step.bindings = {rows::pointer("x"), rows::pointer("y"), rows::i64("rows", "M"),
                   rows::i64("columns", "N")};
  for (const char* tensor : {"x", "y"}) rows::add_strides(step.bindings, tensor);
  step.grid[0] = rows::cuda_row_grid();
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cuda_row_guards(kTensors);
  kernel.reason = tier == Tier::kDeterministic ? rows::fixed_order_reason()
                                               : rows::triton_gap_reason(
                                                     "16384 x 4096 bf16: 66 us, Triton code of "
                                                     "torch.compile on the same machine 156 us");
  return kernel;
}

// Rows of up to 8,192 in one tile; LAYOUT 1: rows at multiples of 16 bytes.
KernelDecl cutile_kernel() {
  KernelDecl kernel{.id = "softmax.cutile.row",
                    .description = "one block a row, in one tile or in three passes over tiles",
                    .backend = "cutile",
                    .tier = Tier::kHighPrecision};
  kernel.sources = {"cutile.py"};
  kernel.tunables = {{"LAYOUT", {0, 1}, "", false, true},
                     {"TILE",
                      {128, 256, 512, 1024, 2048, 4096, 8192},
                      "N <= 8192 ? next_pow2(N) : 4096",
                      true,
                      false},
                     {"LOOP", {0, 1}, "N > TILE", true, false}};
  kernel.requires_any = {{DeviceKind::kCuda, 80, 0}};
  kernel.options = {"vectors(LAYOUT == 1)=x,y"};
  LaunchStep step{.entry = "softmax"};
  step.bindings = {rows::pointer("x"), rows::pointer("y")};
  step.grid[0] = "M";
  kernel.launch.steps = {step};
  // A tile that is wider than the row is stored in whole vectors.
  kernel.launch.guards = {{"LOOP == 1 || N <= TILE", "the row does not fit into a tile"},
                          {"LAYOUT == 0 || N * T.itemsize % 16 == 0",
                           "vector access needs rows that end at 16-byte boundaries"},
                          {"M <= 2147483647", "more rows than a grid has blocks"}};
  return kernel;
}

KernelDecl cpu_kernel() {
  KernelDecl kernel{
      .id = "softmax.cpu.row",
      .description = "chunks of a row in the L1; the next row is read while one is written",
      .backend = "cpu",
      .tier = Tier::kDeterministic};
  kernel.sources = {"cpu.cc"};
  kernel.tunables = rows::cpu_row_tunables(1024);
  kernel.constraints = rows::cpu_row_constraints();
  LaunchStep step{.entry = "softmax"};
  step.bindings = {rows::pointer("x"), rows::pointer("y"), rows::i64("columns", "N")};
  for (const char* tensor : {"x", "y"}) rows::add_strides(step.bindings, tensor);
  step.grid[0] = "M";
  step.block[0] = rows::cpu_row_grain();
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cpu_row_guards(kTensors);
  return kernel;
}

// Rows of up to 16,384 columns, in registers: at most 16 of them a thread.
KernelDecl tilelang_kernel() {
  KernelDecl kernel = rows::tilelang_row_kernel("softmax", kTensors, "");
  kernel.tunables.push_back(
      {"WIDTH", {128, 256, 512, 1024, 2048, 4096, 8192, 16384}, "next_pow2(N)", true, false});
  kernel.tunables.push_back({"THREADS", {32, 64, 128, 256, 512, 1024}, "WIDTH / 16", true, false});
  kernel.constraints = {"WIDTH <= 16 * THREADS", "WIDTH >= 4 * THREADS"};
  kernel.launch.guards.push_back(
      {"N <= WIDTH", "the row does not fit into the threads' registers"});
  return kernel;
}

}  // namespace

Operator opforge_operator_reduction_softmax() {
  Operator op;
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.description = "softmax over the last dim";
  op.formula = "y[m,n] = exp(x[m,n] - max_k x[m,k]) / sum_j exp(x[m,j] - max_k x[m,k])";
  op.signature.name = "reduction.softmax";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = {0.55, 40}, .high_precision = {0.55, 40}};  // derived in README.md
  op.work = {"M * N * T.itemsize", "M * N * T.itemsize", "5 * M * N"};
  op.reference = &softmax_reference;
  op.reference_source = "reference.cc";
  op.kernels = {cuda_kernel("softmax.cuda.row", "a group of threads a row, in registers",
                            Tier::kHighPrecision),
                cuda_kernel("softmax.cuda.fixed",
                            "the same with a fixed number of threads a row; any strides and widths",
                            Tier::kDeterministic),
                rows::triton_row_kernel("softmax", kTensors),
                cutile_kernel(),
                tilelang_kernel(),
                rows::cutedsl_row_kernel("softmax", {"x", "y"}, kTensors),
                cpu_kernel(),
                rows::opencl_row_kernel(
                    {.entry = "softmax", .pointers = {"x", "y"}, .tensors = kTensors}, kTensors)};
  op.cases = softmax_cases();
  op.data_contracts = {{"cuda",
                        "fastest where rows start at 16-byte boundaries and columns are "
                        "contiguous; any strides work"},
                       {"cpu",
                        "fastest where columns are contiguous and rows start at 64-byte "
                        "boundaries; any strides work"},
                       {"opencl", "fastest where columns are contiguous; any strides work"}};
  return op;
}

}  // namespace opforge
