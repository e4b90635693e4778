// norm.layer_norm: the declaration.
#include "ops/row_kernels.hpp"

namespace opforge {

void layer_norm_reference(ReferenceCall& call);
std::vector<Case> layer_norm_cases();

namespace {

const rows::RowTensors kTensors{{"x", "y"}, {"w", "b"}};

std::vector<Binding> bindings(const std::vector<Binding>& sizes) {
  std::vector<Binding> all = {rows::pointer("x"), rows::pointer("w"), rows::pointer("b"),
                              rows::pointer("y")};
  all.insert(all.end(), sizes.begin(), sizes.end());
  all.push_back(rows::f32("eps", "eps"));
  for (const char* vector : {"w", "b"}) {
    all.push_back(rows::i64(std::string(vector) + "_stride", std::string(vector) + ".stride0"));
  }
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
  LaunchStep step{.entry = "layer_norm"};
  step.bindings = bindings({rows::i64("rows", "M"), rows::i64("columns", "N")});
  step.grid[0] = rows::cuda_row_grid();
  step.block[0] = "BLOCK";
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cuda_row_guards(kTensors);
  kernel.reason =
      tier == Tier::kDeterministic
          ? rows::fixed_order_reason()
          : rows::triton_gap_reason(
                "16384 x 4096 bf16: 77 us, Triton code of torch.compile on the same machine 93 us");
  return kernel;
}

KernelDecl cpu_kernel() {
  KernelDecl kernel{
      .id = "layer_norm.cpu.row",
      .description = "chunks of a row in the L1; the next row is read while one is written",
      .backend = "cpu",
      .tier = Tier::kDeterministic};
  kernel.sources = {"cpu.cc"};
  kernel.tunables = rows::cpu_row_tunables(2048);
  kernel.constraints = rows::cpu_row_constraints();
  LaunchStep step{.entry = "layer_norm"};
  step.bindings = bindings({rows::i64("columns", "N")});
  step.grid[0] = "M";
  step.block[0] = rows::cpu_row_grain();
  kernel.launch.steps = {step};
  kernel.launch.guards = rows::cpu_row_guards(kTensors);
  return kernel;
}

}  // namespace

Operator opforge_operator_norm_layer_norm() {
  Operator op;
  op.default_contract(Contract::kHighPrecision);
  op.other_tiers = {Tier::kFast, Tier::kDeterministic};
  op.description = "layer normalisation over the last dim";
  op.formula = "y[m,n] = (x[m,n] - mean_k x[m,k]) / sqrt(var_k x[m,k] + eps) * w[n] + b[n]";
  op.signature.name = "norm.layer_norm";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "w", .dims = {"N"}, .dtype = "W"},
                          {.name = "b", .dims = {"N"}, .dtype = "W", .optional = true},
                          {.name = "y",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.attributes = {
      {.name = "eps", .type = AttrType::kFloat, .default_value = Value{1e-5}, .min = 0.0}};
  op.signature.dtypes = {{{"T", DType::kF32}, {"W", DType::kF32}},
                         {{"T", DType::kBF16}, {"W", DType::kBF16}},
                         {{"T", DType::kBF16}, {"W", DType::kF32}},
                         {{"T", DType::kF16}, {"W", DType::kF16}},
                         {{"T", DType::kF16}, {"W", DType::kF32}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.tolerances = {.fast = {.a = 0.5, .b = 32},
                   .high_precision = {.a = 0.5, .b = 32}};  // derived in README.md
  op.work = {"M * N * T.itemsize + 2 * N * W.itemsize", "M * N * T.itemsize", "8 * M * N"};
  op.reference = &layer_norm_reference;
  op.reference_source = "reference.cc";
  op.kernels = {cuda_kernel("layer_norm.cuda.row", "a group of threads a row, in registers",
                            Tier::kHighPrecision),
                cuda_kernel("layer_norm.cuda.fixed",
                            "the same with a fixed number of threads a row; any strides and widths",
                            Tier::kDeterministic),
                rows::triton_row_kernel(
                    "layer_norm", kTensors,
                    {rows::f32("eps", "eps"),
                     {.name = "has_bias", .type = ParamType::kI32, .value = "b.present"}}),
                cpu_kernel(),
                rows::opencl_row_kernel({.entry = "layer_norm",
                                         .pointers = {"x", "w", "b", "y"},
                                         .scalars = {rows::f32("eps", "eps")},
                                         .tensors = kTensors},
                                        kTensors)};
  op.cases = layer_norm_cases();
  op.data_contracts = {{"cuda",
                        "fastest where rows start at 16-byte boundaries and columns are "
                        "contiguous; any strides work"},
                       {"cpu", "fastest where columns are contiguous; any strides work"},
                       {"opencl", "fastest where columns are contiguous; any strides work"}};
  return op;
}

}  // namespace opforge
