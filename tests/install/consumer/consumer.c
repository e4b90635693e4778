/* The header, the library and the version that they say belong together. */
#include <opforge/opforge.h>
#include <stdio.h>

int main(void) {
  printf("opforge %s, ABI %u\n", opforge_version(), (unsigned)opforge_abi_version());
  return opforge_abi_version() == OPFORGE_ABI_VERSION ? 0 : 1;
}
