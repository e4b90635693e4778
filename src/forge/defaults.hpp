// The variant that serves a shape without any measurement: what dispatch would take from a pack of defaults.
#pragma once

#include "forge/compile.hpp"
#include "target/target.hpp"

namespace opforge {

// Contiguous, aligned tensors of this shape. kNotFound when no default variant's guards hold for it.
Result<Variant> default_variant(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                const Target& target, const DeviceInfo& device);

// Those of `variants` whose guards hold for contiguous, aligned tensors of this shape.
Result<std::vector<Variant>> admitted_variants(const Operator& op, const KernelDecl& kernel, const ShapeRequest& shape,
                                               const DeviceInfo& device, std::vector<Variant> variants);

}  // namespace opforge
