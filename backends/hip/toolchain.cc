// HIP C++: what is missing here. Code objects for gfx* come from Triton, which needs no ROCm.
#include "toolchain/unserved_toolchain.hpp"

namespace opforge {

Toolchain* opforge_toolchain_hip() {
  static auto* toolchain = new UnservedToolchain(
      {.backend = "hip",
       .compiler = "hipcc",
       .variable = "OPFORGE_HIPCC",
       .places = {"/opt/rocm/bin/hipcc"},
       .how = "install ROCm's hipcc; Triton kernels build for gfx targets without it",
       .missing = "HIP C++ kernels are not compiled yet, and nothing here launches code objects: "
                  "neither could be tried on a device"});
  return toolchain;
}

}  // namespace opforge
