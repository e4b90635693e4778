// loss.cross_entropy: the declaration.
#include "ops/loss/cross_entropy.hpp"

namespace opforge {

void cross_entropy_reference(ReferenceCall& call);

Operator opforge_operator_loss_cross_entropy() {
  Operator op;
  op.signature.name = "loss.cross_entropy";
  op.signature.tensors = {
      {.name = "x", .dims = {"...M", "N"}, .dtype = "T"},
      {.name = "target", .dims = {"...M"}, .dtype = "i64"},
      {.name = "lse", .dims = {"...M"}, .dtype = "f32", .access = Access::kWrite},
      {.name = "loss", .dims = {"...M"}, .dtype = "f32", .access = Access::kWrite}};
  op.signature.attributes = loss::attributes();
  op.signature.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}, {{"T", DType::kF16}}};
  op.signature.reduced_dims = {"N"};
  op.signature.backend_priority = {"cuda", "cpu"};
  op.default_contract(Tier::kDeterministic);
  op.description = "cross entropy of logits and class indices, for each row";
  op.formula =
      "lse = log sum_n exp(x[m,n]); loss = lse - (1 - e) x[m,target] - e mean_n x[m,n] + z lse^2";
  op.tolerances = {.fast = {.a = 0.5, .b = 40},
                   .high_precision = {.a = 0.5, .b = 40}};  // derived in README.md
  op.work = {"M * N * T.itemsize + 8 * M", "8 * M", "6 * M * N"};
  op.reference = cross_entropy_reference;
  op.reference_source = "reference.cc";
  const std::vector<std::string> tensors{"x", "target", "lse", "loss"};
  op.kernels = {loss::kernel("cross_entropy", "cuda", tensors, {"x"}),
                loss::kernel("cross_entropy", "cpu", tensors, {"x"})};
  op.cases = loss::cases();
  op.data_contracts = {{"cuda", "any strides"}, {"cpu", "fastest where columns are contiguous"}};
  return op;
}

}  // namespace opforge
