// One result from a sealed pack, and out: cold_first PACK KEY OP. With no arguments it only starts
// and ends.
#include <opforge/opforge.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return opforge_abi_version() == OPFORGE_ABI_VERSION ? 0 : 1;
  opforge_seal();
  opforge_context* context = nullptr;
  opforge_pack_options options;
  OPFORGE_INIT(options);
  const char* key = argv[2];
  options.trusted_keys = &key;
  options.trusted_key_count = 1;
  options.only_named_keys = 1;
  int64_t shape[2] = {8, 64};
  std::vector<float> x(512, 1.0f), y(512);
  DLTensor tx{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0}, ty = tx;
  ty.data = y.data();
  const DLTensor* tensors[] = {&tx, &ty};
  if (opforge_context_create(nullptr, &context) != OPFORGE_OK ||
      opforge_pack_open(context, argv[1], &options) != OPFORGE_OK ||
      opforge_call(context, argv[3], tensors, 2, nullptr, 0, nullptr) != OPFORGE_OK) {
    std::fprintf(stderr, "%s\n", opforge_last_error());
    return 1;
  }
  return y[511] == 2.0f ? 0 : 1;
}
