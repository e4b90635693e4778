/* A stand-in for libcuda.so.1: it keeps devices, contexts, streams, images and launches as the
 * driver would, refuses what the driver would refuse, fails on demand, and records every launch
 * with all parameter bytes. It runs no kernel: no result may be taken from it. Host memory stands
 * for device memory.
 *
 * It is built as build/standin/libcuda.so.1 and found through OPFORGE_LIBCUDA. Tests open the same
 * file to reach the control functions below (standin.hpp does it). All functions are thread-safe.
 *
 * Environment, read when it is loaded: OPFORGE_STANDIN_DEVICES (how many; default 1),
 * OPFORGE_STANDIN_ARCH (90), OPFORGE_STANDIN_DRIVER (13000), OPFORGE_STANDIN_FAST=1 (launches
 * return at once, nothing is checked or recorded: for measuring what is above the driver). */
#ifndef OPFORGE_TESTS_STANDIN_H
#define OPFORGE_TESTS_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kStandinMaxParams = 64, kStandinMaxParamBytes = 4096 };

typedef struct StandinLaunch {
  char symbol[512];
  int device;         /* of the context that the launch ran in */
  uint64_t stream_id; /* as cuStreamGetId gives it; 1 for the legacy stream */
  int captured;       /* into a graph */
  int through_ex;     /* cuLaunchKernelEx */
  unsigned grid[3], block[3], cluster[3], shared_bytes;
  int programmatic, cooperative;
  int param_count;
  size_t param_offsets[kStandinMaxParams],
      param_sizes[kStandinMaxParams];          /* of the compiled kernel */
  unsigned char params[kStandinMaxParamBytes]; /* parameter i lies at param_offsets[i] */
} StandinLaunch;

typedef struct StandinMemset {
  uint64_t address;
  size_t bytes;
  int value;
} StandinMemset;

typedef struct StandinMap { /* a call of cuTensorMapEncodeTiled; the map's bytes begin with this
                               call's number, from 1 */
  int type;
  unsigned rank;
  uint64_t base, dims[5], strides[5];
  unsigned box[5], element_strides[5];
  int interleave, swizzle, l2_promotion, oob_fill;
} StandinMap;

/* Forget launches, failures, attributes and settings, and start again from the environment. Memory
 * and contexts stay. */
void standin_reset(void);
void standin_set_devices(int count);
void standin_set_driver_version(int version);
/* What cuDeviceGetAttribute gives for an attribute of a device. */
void standin_set_attribute(int device, int attribute, int value);
/* Device memory that may be allocated in all. */
void standin_set_memory(int device, size_t bytes);
/* Let the `nth` call from now of an entry point (1: the next; 0: every one) return `result`. Names
 * as exported, e.g. "cuMemAllocAsync". */
void standin_fail(const char* entry, int nth, int result);
/* From now on every call that touches a context returns `result`, as after a fault on the device; 0
 * ends it. */
void standin_set_sticky(int result);
/* Calls of an entry point since the last reset. */
int standin_calls(const char* entry);
/* Images loaded and not unloaded. PTX images compiled since the last reset. */
int standin_images(void);
int standin_jit_count(void);
size_t standin_memory_used(int device);
/* The device of the calling thread's current context, -1 when it has none. */
int standin_current_device(void);

int standin_launch_count(void);
int standin_get_launch(int index, StandinLaunch* launch);
int standin_memset_count(void);
int standin_get_memset(int index, StandinMemset* record);
int standin_map_count(void);
int standin_get_map(int index, StandinMap* record);

#ifdef __cplusplus
}
#endif
#endif
