// Variants of an operator and their artifacts: enumerate, compile through the store.
#pragma once

#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "operator/operator.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

struct ShapeRequest {
  ValueMap dims;            // symbol -> extent
  ValueMap attributes;
  DTypeCombo dtypes;
};

// The defaults of a kernel for a shape: every baked attribute value asked for, tunables at `initial`, each
// specialisation value; DETERMINISTIC kernels: every value that their bit-changing tunables can reach.
Result<std::vector<Variant>> default_variants(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                              const Target& target);
// All combinations of tunable values that meet the constraints, for a shape (the search space of the tuner).
Result<std::vector<Variant>> variant_space(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                           const Target& target);

// Compile through the store. `compiled` (may be null): whether a compiler ran.
Result<Store::Loaded> obtain(const Operator& op, const KernelDecl& kernel, const Variant& variant, Store& store,
                             bool* compiled);
// The proof key: the declaration's meaning, the reference's source, the suite's version.
Result<Digest> proof_key(const Operator& op);

}  // namespace opforge
