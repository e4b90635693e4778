#include "contract/precondition.hpp"

#include <algorithm>

namespace opforge {
namespace {

bool is_empty(const TensorView& view) {
  return !view.present() || std::any_of(view.dims.begin(), view.dims.begin() + view.rank,
                                        [](std::int64_t dim) { return dim == 0; });
}

std::string tensor_name(std::size_t index) { return "tensor " + std::to_string(index); }

Support check_alignment(std::int64_t bytes, std::span<const TensorView> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensors[i].data);
    if (bytes <= 1 || is_empty(tensors[i])) continue;
    if (const auto off = address % static_cast<std::uintptr_t>(bytes); off != 0) {
      return Support::no(tensor_name(i) + " must be aligned to " + std::to_string(bytes) +
                         " bytes, its address is " + std::to_string(off) +
                         " bytes past a multiple");
    }
  }
  return Support::yes();
}

Support check_dtypes(std::span<const DType> allowed, std::span<const TensorView> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType dtype = tensors[i].dtype;
    if (!tensors[i].present() || !is_floating(dtype)) continue;
    if (std::find(allowed.begin(), allowed.end(), dtype) != allowed.end()) continue;
    std::string names;
    for (DType one : allowed) names += (names.empty() ? "" : ", ") + std::string(dtype_name(one));
    return Support::no(tensor_name(i) + " is " + std::string(dtype_name(dtype)) +
                       ", expected one of " + names);
  }
  return Support::yes();
}

Support check_leading(std::int64_t least, std::span<const TensorView> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    if (tensor.rank < 2) continue;
    std::int64_t leading = 1;
    for (int d = 0; d + 1 < tensor.rank; ++d) leading *= tensor.dims[d];
    if (leading < least) {
      return Support::no(tensor_name(i) + " has " + std::to_string(leading) +
                         " rows, needs at least " + std::to_string(least));
    }
  }
  return Support::yes();
}

Support check_one(const Precondition& precondition, std::span<const TensorView> tensors,
                  const CallerFacts& facts) {
  switch (precondition.kind) {
    case PreconditionKind::kLockstepRanks:
      // A single rank is in step with itself.
      if (facts.lockstep || facts.world_size <= 1) return Support::yes();
      return Support::no("needs all " + std::to_string(facts.world_size) +
                         " ranks in lockstep, and the caller's context does not promise it");
    case PreconditionKind::kNotCapturing:
      if (!facts.capturing) return Support::yes();
      return Support::no("cannot run while its stream is being captured into a graph");
    case PreconditionKind::kAlignment:
      return check_alignment(precondition.value, tensors);
    case PreconditionKind::kDTypeIn:
      return check_dtypes(precondition.dtypes, tensors);
    case PreconditionKind::kMinLeadingDim:
      return check_leading(precondition.value, tensors);
  }
  return Support::no("unknown precondition " + std::to_string(static_cast<int>(precondition.kind)));
}

}  // namespace

Support check_preconditions(std::span<const Precondition> preconditions,
                            std::span<const TensorView> tensors, const CallerFacts& facts) {
  for (const Precondition& precondition : preconditions) {
    if (auto support = check_one(precondition, tensors, facts); !support) return support;
  }
  return facts.user ? facts.user(tensors) : Support::yes();
}

}  // namespace opforge
