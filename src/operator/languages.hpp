// The order of kernel languages, and the rule that a lower one needs a reason where a higher one
// serves the same device.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "operator/operator.hpp"

namespace opforge {

// A language by the name of the backend whose kernels are written in it. Backends that are not
// listed (the reference, calls into vendor libraries) are no kernel language: the rule does not
// look at them.
struct LanguageRow {
  std::string_view backend;
  int level;          // larger is higher
  DeviceKind device;  // what its kernels run on, unless the kernel's own requirements say otherwise
};
inline constexpr int kAssemblyLevel =
    0;  // a kernel of any listed language whose sources hold inline assembly
std::span<const LanguageRow> languages();

// The level of a kernel; none when its backend is no listed language. With `folder` the sources are
// looked at for inline assembly (unreadable ones are passed over here; validate() reports them).
std::optional<int> language_level(const KernelDecl& kernel, std::string_view folder);

// kInvalidDeclaration for a reason without kind ("the call shape differs" is none), a missing
// primitive that is not named, a performance gap without its benchmark, and a kernel without reason
// beside one in a higher language for the same device.
Status validate_reasons(const Operator& op);

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
LowLevelShare low_level_share(const Operator& op);

}  // namespace opforge
