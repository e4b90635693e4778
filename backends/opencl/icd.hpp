// The OpenCL ICD loader, opened at run time, and its entry points.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dynlib.hpp"
#include "base/result.hpp"

namespace opforge::ocl {

// FIND(member, entry point). All are of OpenCL 2.1 or earlier.
#define OPFORGE_OPENCL_ENTRIES(FIND)                     \
  FIND(platforms, clGetPlatformIDs)                      \
  FIND(platform_info, clGetPlatformInfo)                 \
  FIND(devices, clGetDeviceIDs)                          \
  FIND(device_info, clGetDeviceInfo)                     \
  FIND(create_context, clCreateContext)                  \
  FIND(create_queue, clCreateCommandQueueWithProperties) \
  FIND(release_queue, clReleaseCommandQueue)             \
  FIND(flush, clFlush)                                   \
  FIND(finish, clFinish)                                 \
  FIND(program_with_source, clCreateProgramWithSource)   \
  FIND(program_with_binary, clCreateProgramWithBinary)   \
  FIND(compile_program, clCompileProgram)                \
  FIND(link_program, clLinkProgram)                      \
  FIND(build_program, clBuildProgram)                    \
  FIND(program_info, clGetProgramInfo)                   \
  FIND(program_build_info, clGetProgramBuildInfo)        \
  FIND(release_program, clReleaseProgram)                \
  FIND(create_kernel, clCreateKernel)                    \
  FIND(release_kernel, clReleaseKernel)                  \
  FIND(kernel_info, clGetKernelInfo)                     \
  FIND(kernel_group_info, clGetKernelWorkGroupInfo)      \
  FIND(set_argument, clSetKernelArg)                     \
  FIND(set_pointer, clSetKernelArgSVMPointer)            \
  FIND(launch, clEnqueueNDRangeKernel)                   \
  FIND(svm_alloc, clSVMAlloc)                            \
  FIND(svm_free, clSVMFree)                              \
  FIND(svm_copy, clEnqueueSVMMemcpy)                     \
  FIND(svm_fill, clEnqueueSVMMemFill)                    \
  FIND(marker, clEnqueueMarkerWithWaitList)              \
  FIND(barrier, clEnqueueBarrierWithWaitList)            \
  FIND(wait, clWaitForEvents)                            \
  FIND(event_times, clGetEventProfilingInfo)             \
  FIND(release_event, clReleaseEvent)

struct Icd {
  std::string path;
  std::vector<std::string> attempts;  // what was tried before, and why it failed
  std::shared_ptr<DynamicLibrary> library;
#define OPFORGE_OPENCL_MEMBER(member, entry) decltype(&entry) member = nullptr;
  OPFORGE_OPENCL_ENTRIES(OPFORGE_OPENCL_MEMBER)
#undef OPFORGE_OPENCL_MEMBER
};

// OPFORGE_LIBOPENCL alone if it is set; else the loader by its name, then vendors' folders.
std::vector<std::string> icd_candidates();
Result<Icd> load_icd(const std::vector<std::string>& candidates);
// Opened once for this process, and never closed: drivers do not survive that. Before that,
// PoCL is given a private folder for what it unpacks (PoCL only; kept from an environment that
// names one).
Result<const Icd*> process_icd();

// "CL_INVALID_BINARY (-42)".
std::string error_name(cl_int error);
// kDriver, kOutOfMemory, kIncompatible (a binary of another device) or kToolchain (a build failed):
// "<what>: <entry> says CL_... (-42)".
Status check(cl_int error, std::string_view entry, std::string_view what);

}  // namespace opforge::ocl
