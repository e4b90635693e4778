/* Images, kernels, tensor maps and launches of the stand-in driver. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* The driver's rules: same major and an equal or higher minor for a cubin; a PTX version that it
 * knows, and an architecture that is not above the device's. */
static int check_image(const Image* image, int ordinal) {
  const int* attributes = standin.device[ordinal].attributes;
  const int arch = attributes[75] * 10 + attributes[76];
  if (image->is_ptx) {
    const int newest =
        (standin.driver_version / 1000 - 4) * 10 + standin.driver_version % 1000 / 10;
    if (image->ptx_version > newest) return 222;
    return image->arch <= arch ? 0 : 218;
  }
  return image->arch / 10 == arch / 10 && image->arch <= arch ? 0 : 209;
}

static int load(const void* bytes, Image** image, int ordinal) {
  int r = image_read(bytes, image);
  if (r != 0) return r;
  r = check_image(*image, ordinal);
  if (r != 0) {
    image_free(*image);
    *image = NULL;
    return r;
  }
  ++standin.images;
  standin.jit_count += (*image)->is_ptx;
  return 0;
}
static int find(KernelInfo** kernel, Image* image, const char* name) {
  for (int i = 0; i < image->kernel_count; ++i) {
    if (strcmp(image->kernels[i].symbol, name) != 0) continue;
    *kernel = &image->kernels[i];
    return 0;
  }
  return 500;
}
static int unload(Image* image) {
  --standin.images;
  image_free(image);
  return 0;
}
static int get(int* value, int attribute, const KernelInfo* kernel, int device) {
  switch (attribute) {
    case 0:
      *value = kernel->max_threads;
      return 0;
    case 1:
      *value = kernel->static_shared;
      return 0;
    case 3:
      *value = 0;
      return 0;
    case 4:
      *value = 32;
      return 0;
    case 8:
      *value = kernel->dynamic_shared[device];
      return 0;
    case 14:
      *value = kernel->non_portable;
      return 0;
    default:
      return 1;
  }
}
static int set(KernelInfo* kernel, int attribute, int value, int device) {
  if (attribute == 8) {
    if (value + kernel->static_shared > standin.device[device].attributes[97]) return 1;
    kernel->dynamic_shared[device] = value;
    return 0;
  }
  if (attribute == 14) {
    kernel->non_portable = value;
    return 0;
  }
  return 1;
}

EXPORT int cuLibraryLoadData(Image** library, const void* code, int* jit_options, void** jit_values,
                             unsigned jit_count, int* options, void** values, unsigned count) {
  ENTER_IN_CONTEXT("cuLibraryLoadData")
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  LEAVE(load(code, library, context->device));
}
EXPORT int cuLibraryUnload(Image* library) {
  ENTER("cuLibraryUnload")
  LEAVE(unload(library));
}
EXPORT int cuLibraryGetKernel(KernelInfo** kernel, Image* library, const char* name) {
  ENTER("cuLibraryGetKernel")
  LEAVE(find(kernel, library, name));
}
EXPORT int cuKernelGetFunction(KernelInfo** function, KernelInfo* kernel) {
  ENTER_IN_CONTEXT("cuKernelGetFunction")
  *function = kernel;
  LEAVE(check_image(kernel->image, context->device));
}
EXPORT int cuKernelGetAttribute(int* value, int attribute, const KernelInfo* kernel, int device) {
  ENTER("cuKernelGetAttribute")
  LEAVE(get(value, attribute, kernel, device));
}
EXPORT int cuKernelSetAttribute(int attribute, int value, KernelInfo* kernel, int device) {
  ENTER("cuKernelSetAttribute")
  LEAVE(set(kernel, attribute, value, device));
}
EXPORT int cuKernelGetParamInfo(const KernelInfo* kernel, size_t index, size_t* offset,
                                size_t* size) {
  ENTER("cuKernelGetParamInfo")
  if (index >= (size_t)kernel->param_count) LEAVE(1);
  *offset = kernel->offsets[index];
  *size = kernel->sizes[index];
  LEAVE(0);
}
EXPORT int cuModuleLoadData(Image** module, const void* code) {
  ENTER_IN_CONTEXT("cuModuleLoadData")
  LEAVE(load(code, module, context->device));
}
EXPORT int cuModuleUnload(Image* module) {
  ENTER("cuModuleUnload")
  LEAVE(unload(module));
}
EXPORT int cuModuleGetFunction(KernelInfo** function, Image* module, const char* name) {
  ENTER("cuModuleGetFunction")
  LEAVE(find(function, module, name));
}
EXPORT int cuFuncGetAttribute(int* value, int attribute, const KernelInfo* function) {
  ENTER_IN_CONTEXT("cuFuncGetAttribute")
  LEAVE(get(value, attribute, function, context->device));
}
EXPORT int cuFuncSetAttribute(KernelInfo* function, int attribute, int value) {
  ENTER_IN_CONTEXT("cuFuncSetAttribute")
  LEAVE(set(function, attribute, value, context->device));
}

EXPORT int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* base,
                                  const uint64_t* dims, const uint64_t* strides,
                                  const uint32_t* box, const uint32_t* element_strides,
                                  int interleave, int swizzle, int l2_promotion, int oob_fill) {
  ENTER("cuTensorMapEncodeTiled")
  StandinMap record = {.type = type,
                       .rank = rank,
                       .base = (uintptr_t)base,
                       .interleave = interleave,
                       .swizzle = swizzle,
                       .l2_promotion = l2_promotion,
                       .oob_fill = oob_fill};
  if (rank < 1 || rank > 5 || record.base % 16 != 0 || (uintptr_t)map % 64 != 0) LEAVE(1);
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] == 0 || box[i] == 0 || box[i] > 256 || (i + 1 < rank && strides[i] % 16 != 0))
      LEAVE(1);
    record.dims[i] = dims[i];
    if (i + 1 < rank) record.strides[i] = strides[i];
    record.box[i] = box[i];
    record.element_strides[i] = element_strides[i];
  }
  memset(map, 0, 128);
  *(uint32_t*)map = (uint32_t)record_map(&record);
  LEAVE(0);
}

typedef struct Attribute {
  int id, pad;
  union {
    char bytes[64];
    int flag;
    unsigned cluster[3];
  } value;
} Attribute;
typedef struct Config {
  unsigned grid[3], block[3], shared_bytes;
  Stream* stream;
  Attribute* attributes;
  unsigned attribute_count;
} Config;

static int check_launch(const KernelInfo* kernel, const StandinLaunch* l) {
  const int* attributes = standin.device[l->device].attributes;
  const unsigned threads = l->block[0] * l->block[1] * l->block[2];
  for (int i = 0; i < 3; ++i) {
    if (l->grid[i] == 0 || l->block[i] == 0) return 1;
  }
  if (l->grid[0] > 2147483647u || l->grid[1] > 65535 || l->grid[2] > 65535) return 1;
  if (threads > 1024 || threads > (unsigned)kernel->max_threads) return 1;
  const int allowed = kernel->dynamic_shared[l->device] > 0 ? kernel->dynamic_shared[l->device]
                                                            : attributes[8] - kernel->static_shared;
  if ((int)l->shared_bytes > allowed) return 1;
  const unsigned cluster = l->cluster[0] * l->cluster[1] * l->cluster[2];
  if (cluster > (kernel->non_portable ? 16u : 8u)) return 912;
  for (int i = 0; i < 3; ++i) {
    if (cluster > 0 && l->grid[i] % l->cluster[i] != 0) return 1;
  }
  return 0;
}

static int launch(KernelInfo* kernel, const Config* config, void** params, int through_ex) {
  Stream* stream = (uintptr_t)config->stream <= 2 ? NULL : config->stream;
  Context* context = stream != NULL ? stream->context : current_context();
  if (standin.sticky != 0) return standin.sticky;
  if (context == NULL) return 201;
  StandinLaunch l;
  memset(&l, 0, sizeof l);
  memcpy(l.symbol, kernel->symbol, sizeof l.symbol);
  l.device = context->device;
  l.stream_id = stream != NULL ? stream->id : (uintptr_t)config->stream == 2 ? 2 : 1;
  l.captured = stream != NULL && stream->capturing;
  l.through_ex = through_ex;
  memcpy(l.grid, config->grid, sizeof l.grid);
  memcpy(l.block, config->block, sizeof l.block);
  l.shared_bytes = config->shared_bytes;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const Attribute* a = &config->attributes[i];
    if (a->id == 4)
      memcpy(l.cluster, a->value.cluster, sizeof l.cluster);
    else if (a->id == 6)
      l.programmatic = a->value.flag;
    else if (a->id == 2)
      l.cooperative = a->value.flag;
    else
      return 1;
  }
  const int r = check_launch(kernel, &l);
  if (r != 0) return r;
  l.param_count = kernel->param_count;
  for (int i = 0; i < kernel->param_count; ++i) {
    l.param_offsets[i] = kernel->offsets[i];
    l.param_sizes[i] = kernel->sizes[i];
    if (kernel->offsets[i] + kernel->sizes[i] > kStandinMaxParamBytes) return 1;
    memcpy(l.params + kernel->offsets[i], params[i], kernel->sizes[i]);
  }
  if (l.captured) ++stream->captured_launches;
  record_launch(&l);
  return 0;
}

EXPORT int cuLaunchKernel(KernelInfo* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, Stream* stream, void** params, void** extra) {
  (void)extra;
  if (standin.fast) return 0;
  ENTER("cuLaunchKernel")
  const Config config = {
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, NULL, 0};
  LEAVE(launch(kernel, &config, params, 0));
}
EXPORT int cuLaunchKernelEx(const Config* config, KernelInfo* kernel, void** params, void** extra) {
  (void)extra;
  if (standin.fast) return 0;
  ENTER("cuLaunchKernelEx")
  LEAVE(launch(kernel, config, params, 1));
}
