#include "image.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint16_t u16(const unsigned char* p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static uint32_t u32(const unsigned char* p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static uint64_t u64(const unsigned char* p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static KernelInfo* add_kernel(Image* image, const char* symbol, size_t length) {
  image->kernels = realloc(image->kernels, (size_t)(image->kernel_count + 1) * sizeof(KernelInfo));
  KernelInfo* kernel = &image->kernels[image->kernel_count++];
  memset(kernel, 0, sizeof *kernel);
  if (length >= sizeof kernel->symbol) length = sizeof kernel->symbol - 1;
  memcpy(kernel->symbol, symbol, length);
  kernel->max_threads = 1024;
  return kernel;
}

/* .nv.info.<kernel>: entries {format, attribute, size}; attribute 0x17 describes a parameter, 0x05
 * the most threads. */
static void read_info(KernelInfo* kernel, const unsigned char* data, uint64_t size) {
  for (uint64_t at = 0; at + 4 <= size;) {
    unsigned format = data[at], attribute = data[at + 1], bytes = u16(data + at + 2);
    at += 4;
    if (format != 4) continue;
    if (attribute == 0x17 && bytes >= 12) {
      unsigned ordinal = u16(data + at + 4);
      if (ordinal < kStandinMaxParams) {
        kernel->offsets[ordinal] = u16(data + at + 6);
        kernel->sizes[ordinal] = u32(data + at + 8) >> 18;
        if ((int)ordinal + 1 > kernel->param_count) kernel->param_count = (int)ordinal + 1;
      }
    } else if ((attribute == 0x05 || attribute == 0x10) && bytes >= 12) {
      kernel->max_threads = (int)(u32(data + at) * u32(data + at + 4) * u32(data + at + 8));
    }
    at += bytes;
  }
}

static int read_elf(const unsigned char* b, Image* image) {
  if (u16(b + 18) != 190) return 200;
  uint32_t flags = u32(b + 0x30);
  image->arch = (int)(b[8] >= 8 ? flags >> 8 & 0xff : flags & 0xff);
  uint64_t table = u64(b + 0x28);
  unsigned count = u16(b + 0x3c), names = u16(b + 0x3e);
  const char* name_bytes = (const char*)b + u64(b + table + 64ULL * names + 24);
  int reserved = 0;
  for (unsigned i = 0; i < count; ++i) {
    reserved |= strcmp(name_bytes + u32(b + table + 64ULL * i), ".nv.shared.reserved.0") == 0;
  }
  for (unsigned i = 0; i < count; ++i) {
    const unsigned char* header = b + table + 64ULL * i;
    const char* name = name_bytes + u32(header);
    if (strncmp(name, ".nv.info.", 9) != 0) continue;
    KernelInfo* kernel = add_kernel(image, name + 9, strlen(name + 9));
    read_info(kernel, b + u64(header + 24), u64(header + 32));
    for (unsigned j = 0; j < count; ++j) {
      const unsigned char* other = b + table + 64ULL * j;
      const char* other_name = name_bytes + u32(other);
      if (strncmp(other_name, ".nv.shared.", 11) == 0 && strcmp(other_name + 11, name + 9) == 0) {
        kernel->static_shared = (int)u64(other + 32) - (reserved ? 1024 : 0);
      }
    }
  }
  return 0;
}

static size_t type_size(const char* type) {
  static const struct {
    const char* name;
    size_t size;
  } types[] = {{"u64", 8}, {"s64", 8}, {"b64", 8}, {"f64", 8}, {"u32", 4},
               {"s32", 4}, {"b32", 4}, {"f32", 4}, {"u16", 2}, {"s16", 2},
               {"b16", 2}, {"f16", 2}, {"u8", 1},  {"s8", 1},  {"b8", 1}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strncmp(type, types[i].name, strlen(types[i].name)) == 0) return types[i].size;
  }
  return 0;
}

/* ".entry name( .param .align 8 .b8 name[24], .param .u64 name, ... )" */
static void read_ptx_params(KernelInfo* kernel, const char* at, const char* end) {
  size_t offset = 0;
  while ((at = strstr(at, ".param")) != NULL && at < end &&
         kernel->param_count < kStandinMaxParams) {
    at += 6;
    size_t align = 0, size = 0;
    for (; at < end && *at != ',' && *at != ')'; ++at) {
      if (strncmp(at, ".align", 6) == 0)
        align = (size_t)strtoul(at + 6, NULL, 10);
      else if (*at == '.' && size == 0)
        size = type_size(at + 1);
      else if (*at == '[')
        size *= (size_t)strtoul(at + 1, NULL, 10);
    }
    if (size == 0) return;
    if (align == 0) align = size;
    offset = (offset + align - 1) / align * align;
    kernel->offsets[kernel->param_count] = offset;
    kernel->sizes[kernel->param_count++] = size;
    offset += size;
  }
}

static int read_ptx(const char* text, Image* image) {
  const char* version = strstr(text, ".version");
  const char* target = strstr(text, ".target");
  if (version == NULL || target == NULL || strstr(target, "sm_") == NULL) return 218;
  image->is_ptx = 1;
  char* dot = NULL;
  unsigned long major = strtoul(version + 8, &dot, 10);
  image->ptx_version = (int)(major * 10 + (*dot == '.' ? strtoul(dot + 1, NULL, 10) : 0));
  image->arch = atoi(strstr(target, "sm_") + 3);
  for (const char* at = strstr(text, ".entry"); at != NULL; at = strstr(at, ".entry")) {
    at += 6;
    while (isspace((unsigned char)*at)) ++at;
    size_t length = strcspn(at, " \t\n(");
    KernelInfo* kernel = add_kernel(image, at, length);
    const char* open = at + strcspn(at, "({");
    if (*open == '(') read_ptx_params(kernel, open, open + strcspn(open, ")"));
  }
  return 0;
}

int image_read(const void* bytes, Image** out) {
  *out = NULL;
  Image* image = calloc(1, sizeof *image);
  const int r = memcmp(bytes, "\177ELF", 4) == 0 ? read_elf(bytes, image) : read_ptx(bytes, image);
  if (r != 0) {
    image_free(image);
    return r;
  }
  for (int i = 0; i < image->kernel_count; ++i) image->kernels[i].image = image;
  *out = image;
  return 0;
}

void image_free(Image* image) {
  free(image->kernels);
  free(image);
}
