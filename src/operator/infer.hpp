// Shapes and dtypes of tensors that a caller has not made yet, from those that it has and from the
// declaration.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "operator/signature.hpp"

namespace opforge {

// `tensors` in signature order; absent ones (TensorView::absent()) that are not optional inputs are
// inferred when `wanted` says so (by default: outputs that are absent and not optional). Returns
// the completed list: inferred tensors are contiguous, with null data, on the device of the given
// ones. kInvalidArgument when a symbol or dtype is not determined by the given tensors, naming it.
Result<std::vector<TensorView>> infer_outputs(const Signature& signature,
                                              std::span<const TensorView> tensors,
                                              const ValueMap& attributes);

// Tensors for planning without data: contiguous, at distinct made-up addresses (aligned to 4096
// bytes, never to be read). `dims` gives every plain dim symbol; "...M" becomes one dim. Optional
// tensors are present if `with_optional`.
Result<std::vector<TensorView>> placeholder_tensors(const Signature& signature,
                                                    const ValueMap& dims, const DTypeCombo& dtypes,
                                                    const ValueMap& attributes, Device device,
                                                    bool with_optional = true);

}  // namespace opforge
