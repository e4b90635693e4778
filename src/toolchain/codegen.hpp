// Text of generated translation units, shared by the toolchains of C++ and CUDA C++ kernels. A unit
// includes the kernel's source, defines the variant's struct V, and has one extern "C" entry for
// each entry of the launch record.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.hpp"
#include "operator/operator.hpp"

namespace opforge {

// "struct V { using T = opforge::bf16; static constexpr long long THREADS = 256; ... };"
// dtype variables as types (float, double, opforge::bf16, opforge::f16, fixed-width integers),
// tunables, specialisations and baked integers as long long, baked booleans as bool, baked floats
// as double, baked text as int: index in `choices`.
Result<std::string> variant_struct(const Signature& signature, const Variant& variant);

struct EntryParameter {
  ParamType type = ParamType::kPtr;
  std::string
      c_type;  // "const void*", "long long", "opforge::bf16", ...; kTensorMap: "opforge::TensorMap"
  std::string name;  // "p0", "p1", ...: never a macro or a keyword
};
// The parameters of a step's entry from its bindings, in order. Pointers to tensors that are only
// read are const, all others not. kInvalidDeclaration for kBytes: compiled sources take scalars.
Result<std::vector<EntryParameter>> entry_parameters(const Signature& signature,
                                                     const LaunchStep& step);

// The kernel steps of a record, each entry once, in order.
std::vector<const LaunchStep*> entry_steps(const LaunchRecord& launch);

// A C identifier made of `text`: every other character becomes '_'.
std::string identifier(std::string_view text);

}  // namespace opforge
