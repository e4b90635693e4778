/* Devices, contexts, memory, streams, events and graphs of the stand-in driver. Signatures are the
 * driver's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state.h"

EXPORT int cuInit(unsigned flags) {
  (void)flags;
  ENTER("cuInit")
  standin.initialised = 1;
  LEAVE(standin.devices > 0 ? 0 : 100);
}

EXPORT int cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion")
  *version = standin.driver_version;
  LEAVE(0);
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {{0, "CUDA_SUCCESS", "no error"},
              {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
              {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
              {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
              {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
              {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
              {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
              {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
               "no kernel image is available for execution on the device"},
              {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
              {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
               "the provided PTX was compiled with an unsupported toolchain."},
              {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
              {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
              {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
              {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
              {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
               "operation not permitted when stream is capturing"},
              {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
               "operation would make the legacy stream depend on a capturing blocking stream"},
              {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
              {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static int error_index(int error) {
  for (int i = 0; i < (int)(sizeof errors / sizeof *errors); ++i) {
    if (errors[i].code == error) return i;
  }
  return -1;
}
EXPORT int cuGetErrorName(int error, const char** name) {
  const int i = error_index(error);
  *name = i < 0 ? NULL : errors[i].name;
  return i < 0 ? 1 : 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  const int i = error_index(error);
  *text = i < 0 ? NULL : errors[i].text;
  return i < 0 ? 1 : 0;
}

EXPORT int cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount")
  *count = standin.devices;
  LEAVE(0);
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  ENTER("cuDeviceGet")
  *device = ordinal;
  LEAVE(ordinal >= 0 && ordinal < standin.devices ? 0 : 101);
}
EXPORT int cuDeviceGetName(char* name, int size, int device) {
  ENTER("cuDeviceGetName")
  (void)device;
  strncpy(name, "opforge stand-in", (size_t)size - 1);
  name[size - 1] = '\0';
  LEAVE(0);
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute")
  if (attribute < 0 || attribute >= kMaxAttributes) LEAVE(1);
  *value = standin.device[device].attributes[attribute];
  LEAVE(0);
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER("cuDeviceTotalMem_v2")
  *bytes = standin.device[device].memory;
  LEAVE(0);
}

EXPORT int cuDeviceGetPCIBusId(char* id, int size, int device) {
  ENTER("cuDeviceGetPCIBusId")
  snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
  LEAVE(0);
}

EXPORT int cuDevicePrimaryCtxRetain(Context** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain")
  *context = &standin.device[device].primary;
  LEAVE(standin.initialised ? 0 : 3);
}
EXPORT int cuCtxPushCurrent_v2(Context* context) {
  if (standin.fast && standin_depth < 16) {
    standin_stack[standin_depth++] = context;
    return 0;
  }
  ENTER("cuCtxPushCurrent_v2")
  if (context == NULL || standin_depth == 16) LEAVE(201);
  standin_stack[standin_depth++] = context;
  LEAVE(0);
}
EXPORT int cuCtxPopCurrent_v2(Context** context) {
  if (standin.fast && standin_depth > 0) {
    *context = standin_stack[--standin_depth];
    return 0;
  }
  ENTER("cuCtxPopCurrent_v2")
  if (standin_depth == 0) LEAVE(201);
  *context = standin_stack[--standin_depth];
  LEAVE(0);
}
EXPORT int cuCtxSetCurrent(Context* context) {
  ENTER("cuCtxSetCurrent")
  if (standin_depth > 0) --standin_depth;
  if (context != NULL) standin_stack[standin_depth++] = context;
  LEAVE(0);
}
EXPORT int cuCtxGetCurrent(Context** context) {
  *context = current_context();
  return 0;
}
EXPORT int cuCtxGetDevice(int* device) {
  ENTER_IN_CONTEXT("cuCtxGetDevice")
  *device = context->device;
  LEAVE(0);
}

/* Every allocation remembers its device and size in front of itself, and is in a list. */
typedef struct Header {
  struct Header* next;
  size_t bytes;
  int device;
} Header;
static Header* allocations;
enum { kHeaderBytes = 512 }; /* the driver aligns to 512 */

static int allocate(uint64_t* memory, size_t bytes, int ordinal) {
  Device* device = &standin.device[ordinal];
  if (bytes == 0) return 1;
  if (bytes > device->memory || device->used > device->memory - bytes) return 2;
  char* raw = aligned_alloc(kHeaderBytes, kHeaderBytes + (bytes + 511) / 512 * 512);
  if (raw == NULL) return 2;
  ((Header*)raw)->bytes = bytes;
  ((Header*)raw)->device = ordinal;
  ((Header*)raw)->next = allocations;
  allocations = (Header*)raw;
  device->used += bytes;
  *memory = (uint64_t)(uintptr_t)(raw + kHeaderBytes);
  return 0;
}
static int release(uint64_t memory) {
  if (memory == 0) return 0;
  Header* header = (Header*)(uintptr_t)(memory - kHeaderBytes);
  Header** at = &allocations;
  while (*at != NULL && *at != header) at = &(*at)->next;
  if (*at == NULL) return 1;
  *at = header->next;
  standin.device[header->device].used -= header->bytes;
  free(header);
  return 0;
}
/* Tests also launch on made-up addresses, which must not be touched. */
static int is_ours(uint64_t memory, size_t bytes) {
  for (const Header* h = allocations; h != NULL; h = h->next) {
    const uint64_t start = (uintptr_t)h + kHeaderBytes;
    if (memory >= start && memory + bytes <= start + h->bytes) return 1;
  }
  return 0;
}

static int any_capture(void) {
  for (Stream* s = standin.streams; s != NULL; s = s->next) {
    if (s->capturing) return 1;
  }
  return 0;
}
static Stream* real_stream(void* stream) { return (uintptr_t)stream <= 2 ? NULL : (Stream*)stream; }

EXPORT int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  ENTER_IN_CONTEXT("cuMemAlloc_v2")
  LEAVE(any_capture() ? 900 : allocate(memory, bytes, context->device));
}
EXPORT int cuMemFree_v2(uint64_t memory) {
  ENTER_IN_CONTEXT("cuMemFree_v2")
  LEAVE(release(memory));
}
EXPORT int cuMemAllocAsync(uint64_t* memory, size_t bytes, void* stream) {
  ENTER_IN_CONTEXT("cuMemAllocAsync")
  Stream* s = real_stream(stream);
  if (s != NULL && s->capturing) LEAVE(900);
  LEAVE(allocate(memory, bytes, s != NULL ? s->context->device : context->device));
}
EXPORT int cuMemFreeAsync(uint64_t memory, void* stream) {
  ENTER_IN_CONTEXT("cuMemFreeAsync")
  Stream* s = real_stream(stream);
  LEAVE(s != NULL && s->capturing ? 900 : release(memory));
}
EXPORT int cuMemcpy(uint64_t to, uint64_t from, size_t bytes) {
  ENTER_IN_CONTEXT("cuMemcpy")
  memmove((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes);
  LEAVE(0);
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  ENTER_IN_CONTEXT("cuMemcpyDtoDAsync_v2")
  (void)stream;
  memmove((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes);
  LEAVE(0);
}
EXPORT int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  (void)stream;
  if (standin.fast) return 0;
  ENTER_IN_CONTEXT("cuMemsetD8Async")
  const StandinMemset record = {memory, bytes, value};
  record_memset(&record);
  if (is_ours(memory, bytes)) memset((void*)(uintptr_t)memory, value, bytes);
  LEAVE(0);
}

EXPORT int cuStreamCreate(Stream** stream, unsigned flags) {
  ENTER_IN_CONTEXT("cuStreamCreate")
  Stream* made = calloc(1, sizeof *made);
  made->context = context;
  made->id = standin.next_stream_id++;
  made->non_blocking = (flags & 1) != 0;
  made->next = standin.streams;
  standin.streams = made;
  *stream = made;
  LEAVE(0);
}
EXPORT int cuStreamDestroy_v2(Stream* stream) {
  ENTER_IN_CONTEXT("cuStreamDestroy_v2")
  for (Stream** at = &standin.streams; *at != NULL; at = &(*at)->next) {
    if (*at != stream) continue;
    *at = stream->next;
    free(stream);
    LEAVE(0);
  }
  LEAVE(400);
}
EXPORT int cuStreamSynchronize(void* stream) {
  ENTER_IN_CONTEXT("cuStreamSynchronize")
  Stream* s = real_stream(stream);
  LEAVE(s != NULL && s->capturing ? 900 : 0);
}
EXPORT int cuStreamGetId(void* stream, unsigned long long* id) {
  *id = (uintptr_t)stream;
  if (standin.fast) return 0;
  ENTER_IN_CONTEXT("cuStreamGetId")
  Stream* s = real_stream(stream);
  if (s != NULL && s->capturing) { /* as driver 580 does */
    s->invalidated = 1;
    LEAVE(900);
  }
  *id = s != NULL ? s->id : (uintptr_t)stream == 2 ? 2 : 1;
  LEAVE(0);
}
EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  *status = 0;
  if (standin.fast) return 0;
  ENTER_IN_CONTEXT("cuStreamIsCapturing")
  Stream* s = real_stream(stream);
  *status = s != NULL ? s->capturing : 0;
  if (s == NULL) {
    for (Stream* other = standin.streams; other != NULL; other = other->next) {
      if (other->capturing && !other->non_blocking && other->context == context) LEAVE(906);
    }
  }
  LEAVE(0);
}
EXPORT int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  ENTER_IN_CONTEXT("cuStreamBeginCapture_v2")
  (void)mode;
  if (real_stream(stream) == NULL) LEAVE(900);
  stream->capturing = 1;
  stream->invalidated = 0;
  stream->captured_launches = 0;
  LEAVE(0);
}
EXPORT int cuStreamEndCapture(Stream* stream, int** graph) {
  ENTER_IN_CONTEXT("cuStreamEndCapture")
  stream->capturing = 0;
  *graph = NULL;
  if (stream->invalidated) LEAVE(901);
  *graph = malloc(sizeof **graph);
  **graph = stream->captured_launches;
  LEAVE(0);
}
EXPORT int cuGraphInstantiateWithFlags(int** exec, const int* graph, unsigned long long flags) {
  ENTER_IN_CONTEXT("cuGraphInstantiateWithFlags")
  (void)flags;
  *exec = malloc(sizeof **exec);
  **exec = *graph;
  LEAVE(0);
}
EXPORT int cuGraphLaunch(int* exec, void* stream) {
  ENTER_IN_CONTEXT("cuGraphLaunch")
  (void)exec, (void)stream;
  LEAVE(0);
}
EXPORT int cuGraphExecDestroy(int* exec) {
  ENTER("cuGraphExecDestroy")
  free(exec);
  LEAVE(0);
}
EXPORT int cuGraphDestroy(int* graph) {
  ENTER("cuGraphDestroy")
  free(graph);
  LEAVE(0);
}

EXPORT int cuEventCreate(struct timespec** event, unsigned flags) {
  ENTER_IN_CONTEXT("cuEventCreate")
  (void)flags;
  *event = calloc(1, sizeof **event);
  LEAVE(0);
}
EXPORT int cuEventDestroy_v2(struct timespec* event) {
  ENTER("cuEventDestroy_v2")
  free(event);
  LEAVE(0);
}
EXPORT int cuEventRecord(struct timespec* event, void* stream) {
  ENTER_IN_CONTEXT("cuEventRecord")
  (void)stream;
  clock_gettime(CLOCK_MONOTONIC, event);
  LEAVE(0);
}
EXPORT int cuEventSynchronize(struct timespec* event) {
  ENTER_IN_CONTEXT("cuEventSynchronize")
  LEAVE(event->tv_sec == 0 && event->tv_nsec == 0 ? 1 : 0);
}
EXPORT int cuEventElapsedTime(float* milliseconds, const struct timespec* start,
                              const struct timespec* end) {
  ENTER_IN_CONTEXT("cuEventElapsedTime")
  *milliseconds = (float)((double)(end->tv_sec - start->tv_sec) * 1e3 +
                          (double)(end->tv_nsec - start->tv_nsec) * 1e-6);
  LEAVE(0);
}
