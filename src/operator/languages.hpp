// The order of kernel languages, and the rule that a lower one needs a reason where a higher one
// serves the same device.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "operator/operator.hpp"

namespace opforge {

// Languages in two levels, above inline assembly: those that describe work on tiles (Triton,
// TileLang, CuTe DSL, cuTile, OpenCL C) and those that describe the work of a thread (CUDA C++,
// C++). A backend says in its backend.cmake which level its language has; one that says nothing
// (the reference, calls into vendor libraries) has no kernel language, and the rule does not look
// at its kernels.
inline constexpr int kAssemblyLevel =
    0;  // a kernel of any language whose sources hold inline assembly
inline constexpr int kThreadLevel = 1;
inline constexpr int kTileLevel = 2;
struct LanguageRow {
  std::string_view backend;
  int level;
  DeviceKind device;  // what its kernels run on, unless the kernel's own requirements say otherwise
};
using Languages = std::span<const LanguageRow>;
Languages all_languages();  // generated from the backends

// The level of a kernel; none when its backend has no kernel language. With `folder` the sources
// are looked at for inline assembly (unreadable ones are passed over here; validate() reports
// them).
std::optional<int> language_level(const KernelDecl& kernel, std::string_view folder,
                                  Languages languages = all_languages());

// kInvalidDeclaration for a reason without kind ("the call shape differs" is none), a missing
// primitive that is not named, a performance gap without its benchmark, and a kernel without reason
// beside one in a higher language for the same device.
Status validate_reasons(const Operator& op, Languages languages = all_languages());

// The share of kernels that are in a lower-level language than the operator's highest for the same
// device, or that say so.
struct LowLevelShare {
  std::size_t kernels = 0;            // in a listed language
  std::size_t lower = 0;              // of these, with a reason to be in a lower one
  std::size_t missing_primitive = 0;  // of `lower`
  std::size_t performance_gap = 0;    // of `lower`
  double share() const {
    return kernels ? static_cast<double>(lower) / static_cast<double>(kernels) : 0;
  }
  LowLevelShare& operator+=(const LowLevelShare& other);
};
LowLevelShare low_level_share(const Operator& op, Languages languages = all_languages());

}  // namespace opforge
