/* What the stand-in driver reads of an image: kernels with their parameter tables. */
#ifndef OPFORGE_TESTS_STANDIN_IMAGE_H
#define OPFORGE_TESTS_STANDIN_IMAGE_H

#include <stddef.h>

#include "standin.h"

typedef struct Image Image;

typedef struct KernelInfo {
  Image* image;
  char symbol[512];
  int param_count;
  size_t offsets[kStandinMaxParams], sizes[kStandinMaxParams];
  int static_shared, max_threads;
  int dynamic_shared[16]; /* allowed, by device */
  int non_portable;
} KernelInfo;

struct Image {
  int arch; /* 90 */
  int is_ptx, ptx_version;
  int kernel_count;
  KernelInfo* kernels;
};

/* 0, or the driver's error for bytes that it cannot read (200, 218). The image is owned by the
 * caller. */
int image_read(const void* bytes, Image** image);
void image_free(Image* image);

#endif
