// Variants of an operator and their artifacts: enumerate, compile through the store.
#pragma once

#include <string>
#include <vector>

#include "artifact/store.hpp"
#include "operator/operator.hpp"
#include "toolchain/toolchain.hpp"

namespace opforge {

struct ShapeRequest {
  ValueMap dims;        // symbol -> extent
  ValueMap attributes;  // those that differ from the defaults
  DTypeCombo dtypes;
};

// Whether a kernel has variants for this target and these dtypes at all, or why not (requirements,
// dtypes, no toolchain serves the target).
Support compiles_for(const Operator& op, const KernelDecl& kernel, const DTypeCombo& dtypes,
                     const Target& target);

// The defaults of a kernel for a shape: tunables at `initial`, each specialisation value; of a
// DETERMINISTIC kernel every value that its bit-changing tunables can reach at other shapes, so
// that all widths are served. Attributes that are baked take the shape's value, else their default.
// Empty where compiles_for() says no. The batch dims of a shape reach nothing but `initial`
// expressions.
Result<std::vector<Variant>> default_variants(const Operator& op, const KernelDecl& kernel,
                                              const ShapeRequest& shape, const Target& target);
// All combinations of tunable values that meet the constraints, for a shape (the search space of
// the tuner). Bit-changing tunables of a DETERMINISTIC kernel stay at `initial`.
Result<std::vector<Variant>> variant_space(const Operator& op, const KernelDecl& kernel,
                                           const ShapeRequest& shape, const Target& target);

// At most `most` of `space` (0: all), the same ones each time: first what brings a value of a tunable that is not there yet,
// then others, both in an order that the variants' names fix.
std::vector<Variant> stratified_sample(std::vector<Variant> space, std::size_t most);

// The kernel of a variant. kNotFound when the declaration has changed since.
Result<const KernelDecl*> kernel_of(const Operator& op, const Variant& variant);

// The code key of a variant. kUnavailable when no toolchain here can tell (the reason says how to
// get one).
Result<Digest> variant_key(const Operator& op, const KernelDecl& kernel, const Variant& variant);

// Compile through the store. `compiled` (may be null): whether a compiler ran. kUnavailable when
// the toolchain is absent here, kToolchain when compiling failed, kCompilationSealed when the store
// has no such artifact and nothing may compile.
Result<Store::Loaded> obtain(const Operator& op, const KernelDecl& kernel, const Variant& variant,
                             Store& store, bool* compiled);
// The proof key: the declaration's meaning, the reference's source, the suite's version.
Result<Digest> proof_key(const Operator& op);

}  // namespace opforge
