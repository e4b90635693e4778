// MetaX MACA: what is missing here.
#include "toolchain/unserved_toolchain.hpp"

namespace opforge {

Toolchain* opforge_toolchain_metax() {
  static auto* toolchain = new UnservedToolchain(
      {.backend = "metax",
       .compiler = "mxcc",
       .variable = "OPFORGE_MXCC",
       .places = {"/opt/maca/mxgpu_llvm/bin/mxcc"},
       .how = "install the vendor's MACA toolkit",
       .missing =
           "kernels are not compiled with it yet, and nothing here launches its code: neither "
           "could be tried on a device"});
  return toolchain;
}

}  // namespace opforge
