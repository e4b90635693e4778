#include "backends/cuda/driver.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace opforge::cu {
namespace {

constexpr std::string_view kWhere = "backends/cuda/driver";

std::string advice(CuResult result) {
  switch (result) {
    case kNoDevice:
      return "; no GPU is visible to this process (check CUDA_VISIBLE_DEVICES, or that the "
             "container was started with "
             "access to one)";
    case kStubLibrary:
      return "; that is the toolkit's stub: remove its `stubs` folder from the library path";
    case kSystemDriverMismatch:
      return "; the library and the kernel module are of different driver versions";
    default:
      return "; `nvidia-smi` tells whether the driver itself works";
  }
}

Status find_entries(DynamicLibrary& library, Driver& driver) {
  std::string missing;
#define OPFORGE_CUDA_FIND(required, member, name, parameters)                      \
  driver.member = reinterpret_cast<decltype(driver.member)>(library.symbol(name)); \
  if (required && driver.member == nullptr) missing += missing.empty() ? name : ", " name;
  OPFORGE_CUDA_ENTRIES(OPFORGE_CUDA_FIND)
#undef OPFORGE_CUDA_FIND
  if (missing.empty()) return {};
  return fail(Code::kIncompatible,
              fmt::format("the CUDA driver {} is too old: it lacks {}; install driver 525 or later",
                          library.path(), missing),
              std::string(kWhere));
}

}  // namespace

std::vector<std::string> driver_candidates() {
  if (const char* named = std::getenv("OPFORGE_LIBCUDA"); named != nullptr && *named != '\0')
    return {named};
  std::vector<std::string> all{"libcuda.so.1"};
  for (const char* folder :
       {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib/wsl/lib",
        "/run/opengl-driver/lib", "/usr/local/cuda/compat",
        "/usr/lib/x86_64-linux-gnu/nvidia/current", "/home/kubernetes/bin/nvidia/lib64"}) {
    all.push_back(fmt::format("{}/libcuda.so.1", folder));
  }
  return all;
}

Result<Driver> load_driver(std::span<const std::string> candidates) {
  OPFORGE_ASSIGN(DynamicLibrary library, DynamicLibrary::open_first(candidates));
  Driver driver;
  driver.path = library.path();
  driver.attempts = library.attempts();
  driver.library = std::make_shared<DynamicLibrary>(std::move(library));
  OPFORGE_TRY(find_entries(*driver.library, driver));
  if (const CuResult r = driver.init(0); r != kSuccess) {
    return fail(
        Code::kUnavailable,
        fmt::format("cuInit of {} says {}{}", driver.path, error_text(driver, r), advice(r)),
        std::string(kWhere));
  }
  if (const CuResult r = driver.driver_version(&driver.version); r != kSuccess) {
    return fail(Code::kDriver,
                fmt::format("cuDriverGetVersion of {} says {}", driver.path, error_text(driver, r)),
                std::string(kWhere));
  }
  return driver;
}

Result<const Driver*> process_driver() {
  // Never destroyed: plans may be released by threads that outlive static destructors.
  static const auto* loaded = new Result<Driver>(load_driver(driver_candidates()));
  if (!*loaded) return fail(loaded->error());
  return &**loaded;
}

std::string error_text(const Driver& driver, CuResult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != kSuccess || name == nullptr) name = "unknown CUDA error";
  if (driver.error_string(result, &text) != kSuccess || text == nullptr) text = "no description";
  return fmt::format("{} ({}): {}", name, result, text);
}

bool is_sticky(CuResult result) {
  switch (result) {
    case kDeinitialized:
    case kEccUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
      return true;
    default:
      return false;
  }
}

namespace {

Code code_of(CuResult result) {
  if (result >= kCaptureUnsupported && result <= kCaptureLast) return Code::kUnavailable;
  switch (result) {
    case kOutOfMemory:
      return Code::kOutOfMemory;
    case kNoBinaryForGpu:
    case kUnsupportedPtxVersion:
    case kJitCompilerNotFound:
      return Code::kIncompatible;
    case kInvalidImage:
    case kInvalidSource:
    case kInvalidPtx:
      return Code::kCorrupt;
    case kNotFound:
      return Code::kNotFound;
    default:
      return Code::kDriver;
  }
}

}  // namespace

Status check(const Driver& driver, CuResult result, std::string_view entry, std::string_view what) {
  if (result == kSuccess) [[likely]]
    return {};
  std::string message = fmt::format("{}: {} says {}", what, entry, error_text(driver, result));
  if (is_sticky(result)) {
    message +=
        "; this is a sticky device error: the process cannot use this GPU any more and has to be "
        "restarted";
  } else if (result >= kCaptureUnsupported && result <= kCaptureLast) {
    message += "; a stream is being captured into a graph: do this before the capture begins";
  } else if (result == kUnsupportedPtxVersion) {
    message += fmt::format("; the PTX is newer than this driver ({}) can read",
                           version_text(driver.version));
  }
  return fail(code_of(result), std::move(message), std::string(kWhere));
}

std::string version_text(int version) {
  const std::string cuda = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  if (version == 12000) return "525 (" + cuda + ")";
  if (version == 13000) return "580 (" + cuda + ")";
  return cuda;
}

}  // namespace opforge::cu
