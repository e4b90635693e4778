#include "backends/opencl/icd.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/files.hpp"

namespace opforge::ocl {
namespace {

constexpr std::string_view kWhere = "backends/opencl/icd";

// Removed when the process that made it ends, not when one that it forked does.
struct PrivateFolder {
  std::optional<TempDir> folder;
  pid_t owner = 0;
  ~PrivateFolder() {
    if (folder && owner != ::getpid()) (void)folder->release();
  }
};

// PoCL unpacks programs into a folder and runs what it finds there, and would take one that other
// processes write to. A folder of this process alone holds only code whose digest was checked, and
// leaves no state between runs. It compiles every kernel again for the group size of its first
// launch unless told not to: that would be a compiler on the launch path of a sealed process. The
// variables mean nothing to other drivers.
void prepare_pocl() {
  ::setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
  if (std::getenv("POCL_CACHE_DIR") != nullptr) return;
  static PrivateFolder kept;
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const char* parent = *variable == '\0' ? "/tmp" : std::getenv(variable);
    if (parent == nullptr || *parent != '/') continue;
    auto made = TempDir::create(parent, "opforge-opencl");
    if (!made) continue;
    ::setenv("POCL_CACHE_DIR", made->path().c_str(), 0);
    kept.folder.emplace(std::move(*made));
    kept.owner = ::getpid();
    return;
  }
}

Code code_of(cl_int error) {
  switch (error) {
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return Code::kOutOfMemory;
    case CL_INVALID_BINARY:
      return Code::kIncompatible;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_LINKER_NOT_AVAILABLE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_COMPILER_OPTIONS:
    case CL_INVALID_LINKER_OPTIONS:
      return Code::kToolchain;
    default:
      return Code::kDriver;
  }
}

}  // namespace

std::vector<std::string> icd_candidates() {
  if (const char* named = std::getenv("OPFORGE_LIBOPENCL"); named != nullptr && *named != '\0')
    return {named};
  std::vector<std::string> all{"libOpenCL.so.1"};
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu",
        "/usr/local/cuda/lib64", "/opt/rocm/lib"}) {
    all.push_back(fmt::format("{}/libOpenCL.so.1", folder));
  }
  return all;
}

Result<Icd> load_icd(const std::vector<std::string>& candidates) {
  OPFORGE_ASSIGN(DynamicLibrary library, DynamicLibrary::open_first(candidates));
  Icd icd;
  icd.path = library.path();
  icd.attempts = library.attempts();
  icd.library = std::make_shared<DynamicLibrary>(std::move(library));
  std::string missing;
#define OPFORGE_OPENCL_FIND(member, entry)                                          \
  icd.member = reinterpret_cast<decltype(icd.member)>(icd.library->symbol(#entry)); \
  if (icd.member == nullptr) missing += missing.empty() ? #entry : ", " #entry;
  OPFORGE_OPENCL_ENTRIES(OPFORGE_OPENCL_FIND)
#undef OPFORGE_OPENCL_FIND
  if (missing.empty()) return icd;
  return fail(
      Code::kIncompatible,
      fmt::format("the OpenCL loader {} is too old: it lacks {}; one of OpenCL 2.1 or later "
                  "is needed (Debian: ocl-icd-libopencl1)",
                  icd.path, missing),
      std::string(kWhere));
}

Result<const Icd*> process_icd() {
  static const auto* loaded = [] {
    prepare_pocl();
    return new Result<Icd>(load_icd(icd_candidates()));
  }();
  if (!*loaded) return fail(loaded->error());
  return &**loaded;
}

std::string error_name(cl_int error) {
  switch (error) {
#define OPFORGE_OPENCL_ERROR(name) \
  case name:                       \
    return fmt::format("{} ({})", #name, static_cast<int>(error));
    OPFORGE_OPENCL_ERROR(CL_DEVICE_NOT_FOUND)
    OPFORGE_OPENCL_ERROR(CL_DEVICE_NOT_AVAILABLE)
    OPFORGE_OPENCL_ERROR(CL_COMPILER_NOT_AVAILABLE)
    OPFORGE_OPENCL_ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    OPFORGE_OPENCL_ERROR(CL_OUT_OF_RESOURCES)
    OPFORGE_OPENCL_ERROR(CL_OUT_OF_HOST_MEMORY)
    OPFORGE_OPENCL_ERROR(CL_PROFILING_INFO_NOT_AVAILABLE)
    OPFORGE_OPENCL_ERROR(CL_BUILD_PROGRAM_FAILURE)
    OPFORGE_OPENCL_ERROR(CL_COMPILE_PROGRAM_FAILURE)
    OPFORGE_OPENCL_ERROR(CL_LINKER_NOT_AVAILABLE)
    OPFORGE_OPENCL_ERROR(CL_LINK_PROGRAM_FAILURE)
    OPFORGE_OPENCL_ERROR(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    OPFORGE_OPENCL_ERROR(CL_INVALID_VALUE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_DEVICE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_CONTEXT)
    OPFORGE_OPENCL_ERROR(CL_INVALID_COMMAND_QUEUE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_BINARY)
    OPFORGE_OPENCL_ERROR(CL_INVALID_BUILD_OPTIONS)
    OPFORGE_OPENCL_ERROR(CL_INVALID_PROGRAM)
    OPFORGE_OPENCL_ERROR(CL_INVALID_PROGRAM_EXECUTABLE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_KERNEL_NAME)
    OPFORGE_OPENCL_ERROR(CL_INVALID_KERNEL)
    OPFORGE_OPENCL_ERROR(CL_INVALID_ARG_INDEX)
    OPFORGE_OPENCL_ERROR(CL_INVALID_ARG_VALUE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_ARG_SIZE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_KERNEL_ARGS)
    OPFORGE_OPENCL_ERROR(CL_INVALID_WORK_DIMENSION)
    OPFORGE_OPENCL_ERROR(CL_INVALID_WORK_GROUP_SIZE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_GLOBAL_OFFSET)
    OPFORGE_OPENCL_ERROR(CL_INVALID_OPERATION)
    OPFORGE_OPENCL_ERROR(CL_INVALID_BUFFER_SIZE)
    OPFORGE_OPENCL_ERROR(CL_INVALID_COMPILER_OPTIONS)
    OPFORGE_OPENCL_ERROR(CL_INVALID_LINKER_OPTIONS)
    OPFORGE_OPENCL_ERROR(CL_PLATFORM_NOT_FOUND_KHR)
#undef OPFORGE_OPENCL_ERROR
    default:
      return fmt::format("OpenCL error {}", static_cast<int>(error));
  }
}

Status check(cl_int error, std::string_view entry, std::string_view what) {
  if (error == CL_SUCCESS) [[likely]]
    return {};
  return fail(code_of(error), fmt::format("{}: {} says {}", what, entry, error_name(error)),
              std::string(kWhere));
}

}  // namespace opforge::ocl
