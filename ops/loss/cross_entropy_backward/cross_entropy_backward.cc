// loss.cross_entropy_backward: the declaration.
#include "ops/loss/cross_entropy.hpp"

namespace opforge {

void cross_entropy_backward_reference(ReferenceCall& call);

Operator opforge_operator_loss_cross_entropy_backward() {
  Operator op;
  op.signature.name = "loss.cross_entropy_backward";
  op.signature.tensors = {{.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
                          {.name = "target", .dims = {"...M"}, .dtype = "i64"},
                          {.name = "lse", .dims = {"...M"}, .dtype = "f32"},
                          {.name = "dloss", .dims = {"...M"}, .dtype = "f32"},
                          {.name = "dx",
                           .dims = {"...M", "N"},
                           .dtype = "T",
                           .access = Access::kWrite,
                           .may_alias = {"x"}}};
  op.signature.attributes = loss::attributes();
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  // The target decides which element is another, so a row is not free to be cut.
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "gradient of the cross entropy by the logits";
  op.formula =
      "dx = dloss ((1 + 2 z lse) exp(x - lse) - e / N - (1 - e) (n == target)); 0 in ignored rows";
  op.tolerances = {.fast = {.a = 0.5, .b = 12},
                   .high_precision = {.a = 0.5, .b = 12}};  // derived in README.md
  op.work = {"M * N * T.itemsize + 16 * M", "M * N * T.itemsize", "5 * M * N"};
  op.reference = cross_entropy_backward_reference;
  op.reference_source = "reference.cc";
  const std::vector<std::string> tensors{"x", "target", "lse", "dloss", "dx"};
  op.kernels = {loss::kernel("cross_entropy_backward", "cuda", tensors, {"x", "dx"}),
                loss::kernel("cross_entropy_backward", "cpu", tensors, {"x", "dx"})};
  op.cases = loss::cases();
  op.data_contracts = {{"cuda", "any strides"}, {"cpu", "fastest where columns are contiguous"}};
  return op;
}

}  // namespace opforge
