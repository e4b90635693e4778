// The few declarations of the CUDA driver API that opforge uses, so that it builds without a CUDA
// toolkit. Names, values and layouts are those of cuda.h; the driver keeps them stable. Entry
// points are found at run time (driver.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace opforge::cu {

using CuResult = int;
using Device = int;
using DevicePtr = unsigned long long;
using Context = struct ContextOpaque*;
using Stream = void*;
using Event = struct EventOpaque*;
using Module = struct ModuleOpaque*;
using Function = void*;  // a CUfunction, or a CUkernel, which the driver takes in its place
using Library = struct LibraryOpaque*;
using Kernel = struct KernelOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

// CUresult values that are told apart; all others are reported by the driver's own name for them.
enum : CuResult {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kJitCompilerNotFound = 221,
  kUnsupportedPtxVersion = 222,
  kInvalidSource = 300,
  kNotFound = 500,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kSystemDriverMismatch = 803,
  kCaptureUnsupported = 900,
  kCaptureImplicit = 906,
  kCaptureLast = 908,
};

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxSharedPerBlock = 8,
  kWarpSize = 10,
  kClockRateKhz = 13,
  kMultiprocessorCount = 16,
  kMemoryClockRateKhz = 36,
  kL2CacheSize = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kCooperativeLaunch = 95,
  kMaxSharedPerBlockOptin = 97,
  kMemoryPoolsSupported = 115,
};

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
  kFunctionMaxDynamicSharedBytes = 8,
  kFunctionNonPortableCluster = 14,
};

enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

enum LaunchAttributeId : int {
  kLaunchCooperative = 2,
  kLaunchClusterDimension = 4,
  kLaunchProgrammaticSerialization = 6,
};
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[8 - sizeof(LaunchAttributeId)];
  union {
    char bytes[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56, "layout of cuda.h");

struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};
enum TensorMapType : int {
  kMapUint8 = 0,
  kMapUint16 = 1,
  kMapUint32 = 2,
  kMapInt32 = 3,
  kMapUint64 = 4,
  kMapInt64 = 5,
  kMapFloat16 = 6,
  kMapFloat32 = 7,
  kMapFloat64 = 8,
  kMapBFloat16 = 9,
};

// Every entry point: X(required, member, exported name, parameters). Those that are not required
// are null in older drivers.
#define OPFORGE_CUDA_ENTRIES(X)                                                                    \
  X(true, init, "cuInit", (unsigned flags))                                                        \
  X(true, driver_version, "cuDriverGetVersion", (int* version))                                    \
  X(true, error_name, "cuGetErrorName", (CuResult error, const char** name))                       \
  X(true, error_string, "cuGetErrorString", (CuResult error, const char** text))                   \
  X(true, device_count, "cuDeviceGetCount", (int* count))                                          \
  X(true, device_get, "cuDeviceGet", (Device * device, int ordinal))                               \
  X(true, device_name, "cuDeviceGetName", (char* name, int size, Device device))                   \
  X(true, device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, Device device))    \
  X(true, device_memory, "cuDeviceTotalMem_v2", (std::size_t * bytes, Device device))              \
  X(false, device_pci_id, "cuDeviceGetPCIBusId", (char* id, int size, Device device))              \
  X(true, context_retain, "cuDevicePrimaryCtxRetain", (Context * context, Device device))          \
  X(true, context_push, "cuCtxPushCurrent_v2", (Context context))                                  \
  X(true, context_pop, "cuCtxPopCurrent_v2", (Context * context))                                  \
  X(true, context_current, "cuCtxGetCurrent", (Context * context))                                 \
  X(true, context_device, "cuCtxGetDevice", (Device * device))                                     \
  X(true, memory_alloc, "cuMemAlloc_v2", (DevicePtr * memory, std::size_t bytes))                  \
  X(true, memory_free, "cuMemFree_v2", (DevicePtr memory))                                         \
  X(false, memory_alloc_async, "cuMemAllocAsync",                                                  \
    (DevicePtr * memory, std::size_t bytes, Stream stream))                                        \
  X(false, memory_free_async, "cuMemFreeAsync", (DevicePtr memory, Stream stream))                 \
  X(true, memory_copy, "cuMemcpy", (DevicePtr to, DevicePtr from, std::size_t bytes))              \
  X(true, memory_copy_async, "cuMemcpyDtoDAsync_v2",                                               \
    (DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream))                              \
  X(true, memory_set, "cuMemsetD8Async",                                                           \
    (DevicePtr memory, unsigned char value, std::size_t bytes, Stream stream))                     \
  X(true, stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                      \
  X(true, stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                   \
  X(true, stream_synchronize, "cuStreamSynchronize", (Stream stream))                              \
  X(true, stream_is_capturing, "cuStreamIsCapturing", (Stream stream, int* status))                \
  X(false, stream_id, "cuStreamGetId", (Stream stream, unsigned long long* id))                    \
  X(true, stream_begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))              \
  X(true, stream_end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                \
  X(false, graph_instantiate, "cuGraphInstantiateWithFlags",                                       \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                     \
  X(true, graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))                          \
  X(true, graph_exec_destroy, "cuGraphExecDestroy", (GraphExec exec))                              \
  X(true, graph_destroy, "cuGraphDestroy", (Graph graph))                                          \
  X(true, event_create, "cuEventCreate", (Event * event, unsigned flags))                          \
  X(true, event_destroy, "cuEventDestroy_v2", (Event event))                                       \
  X(true, event_record, "cuEventRecord", (Event event, Stream stream))                             \
  X(true, event_synchronize, "cuEventSynchronize", (Event event))                                  \
  X(true, event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))      \
  X(true, module_load, "cuModuleLoadData", (Module * module, const void* image))                   \
  X(true, module_unload, "cuModuleUnload", (Module module))                                        \
  X(true, module_function, "cuModuleGetFunction",                                                  \
    (Function * function, Module module, const char* name))                                        \
  X(true, function_get, "cuFuncGetAttribute", (int* value, int attribute, Function function))      \
  X(true, function_set, "cuFuncSetAttribute", (Function function, int attribute, int value))       \
  X(false, library_load, "cuLibraryLoadData",                                                      \
    (Library * library, const void* code, int* jit_options, void** jit_values, unsigned jit_count, \
     int* options, void** values, unsigned count))                                                 \
  X(false, library_unload, "cuLibraryUnload", (Library library))                                   \
  X(false, library_kernel, "cuLibraryGetKernel",                                                   \
    (Kernel * kernel, Library library, const char* name))                                          \
  X(false, kernel_function, "cuKernelGetFunction", (Function * function, Kernel kernel))          \
  X(false, kernel_get, "cuKernelGetAttribute",                                                     \
    (int* value, int attribute, Kernel kernel, Device device))                                     \
  X(false, kernel_set, "cuKernelSetAttribute",                                                     \
    (int attribute, int value, Kernel kernel, Device device))                                      \
  X(false, kernel_param, "cuKernelGetParamInfo",                                                   \
    (Kernel kernel, std::size_t index, std::size_t * offset, std::size_t * size))                  \
  X(true, launch, "cuLaunchKernel",                                                                \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** params,      \
     void** extra))                                                                                \
  X(false, launch_ex, "cuLaunchKernelEx",                                                          \
    (const LaunchConfig* config, Function function, void** params, void** extra))                  \
  X(false, tensor_map_encode, "cuTensorMapEncodeTiled",                                            \
    (TensorMap * map, int type, std::uint32_t rank, void* base, const std::uint64_t* dims,         \
     const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* element_strides, \
     int interleave, int swizzle, int l2_promotion, int oob_fill))

}  // namespace opforge::cu
