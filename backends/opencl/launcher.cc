#include "backends/opencl/launcher.hpp"

#include <fmt/format.h>

#include <thread>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "runtime/arguments.hpp"
#include "runtime/seal.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/launcher";

// What differs between the device of the binary and this one; empty: nothing.
std::string difference(const Identity& built, const Identity& here) {
  if (built == here) return {};
  return fmt::format("it was built for {}, this device is {}", to_string(built), to_string(here));
}

std::uint64_t product(const std::uint32_t (&values)[3]) {
  return std::uint64_t{values[0]} * values[1] * values[2];
}

}  // namespace

Kernel::~Kernel() {
  for (cl_kernel copy : copies_) {
    if (copy != nullptr) icd_.release_kernel(copy);
  }
}

Status Kernel::create(cl_program program, const std::string& symbol) {
  for (cl_kernel& copy : copies_) {
    cl_int error = CL_SUCCESS;
    copy = icd_.create_kernel(program, symbol.c_str(), &error);
    if (error == CL_SUCCESS) continue;
    if (error == CL_INVALID_KERNEL_NAME) {
      return fail(Code::kCorrupt,
                  fmt::format("the code has no kernel '{}'; rebuild the pack", symbol), kWhere);
    }
    return check(error, "clCreateKernel", symbol);
  }
  return {};
}

Kernel::Use::Use(Kernel& kernel) : kernel_(kernel) {
  while (true) {
    for (at_ = 0; at_ < kCopies; ++at_) {
      if (!kernel_.busy_[at_].exchange(true, std::memory_order_acquire)) return;
    }
    std::this_thread::yield();
  }
}

Result<std::shared_ptr<LoadedCode>> OpenClLauncher::load(const Artifact& artifact,
                                                         const std::string& code, int ordinal,
                                                         bool allow_ptx) {
  const std::string name = opforge::to_string(artifact.variant);
  OPFORGE_ASSIGN(const OpenClDevice* device, devices_.open(ordinal));
  OPFORGE_ASSIGN(const Target target, parse_target(artifact.variant.target));
  if (const Support runs = runs_on(target, device->info, allow_ptx); !runs)
    return fail(Code::kIncompatible, fmt::format("{}: {}", name, runs.reason()), kWhere);
  if (sha256(std::string_view(code)) != artifact.code_digest) {
    return fail(Code::kCorrupt,
                fmt::format("{}: the code is not what was built; rebuild the pack", name), kWhere);
  }
  OPFORGE_ASSIGN(const CodeImage image, unpack_image(code));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  auto loaded = std::make_shared<OpenClCode>();
  loaded->variant = name;
  std::string why = difference(image.built_for, device->identity);
  if (why.empty()) {
    auto program = load_binary(*icd, *device, image.binary, name);
    if (program) {
      loaded->program = std::move(*program);
      return std::shared_ptr<LoadedCode>(std::move(loaded));
    }
    why = program.error().message;
  }
  if (is_sealed() || !(allow_ptx || is_development())) {
    return fail(
        Code::kIncompatible,
        fmt::format("{}: the binary is not for this device: {}; {} build it on this machine "
                    "(opforge build --target {})",
                    name, why,
                    is_sealed() ? "this process is sealed, so its source is not compiled:"
                                : "its source is compiled only if the caller lets the "
                                  "driver compile (--allow-ptx); else",
                    artifact.variant.target),
        kWhere);
  }
  log(LogLevel::kInfo, "opencl", fmt::format("{}: compiled from source: {}", name, why));
  OPFORGE_ASSIGN(BuiltProgram built,
                 build_source(*icd, *device, image.source, image.options, name));
  loaded->program = std::move(built.program);
  return std::shared_ptr<LoadedCode>(std::move(loaded));
}

namespace {

// What can be asked of a kernel that came as a binary: how many parameters, which group size. Their
// types were checked by the compiler, against a prototype made from the launch record.
Status check_kernel(const Icd& icd, const OpenClDevice& device, cl_kernel kernel,
                    const PreparedStep& step, const std::string& name) {
  cl_uint parameters = 0;
  OPFORGE_TRY(
      check(icd.kernel_info(kernel, CL_KERNEL_NUM_ARGS, sizeof parameters, &parameters, nullptr),
            "clGetKernelInfo", name));
  if (parameters != step.param_sizes.size()) {
    return fail(Code::kIncompatible,
                fmt::format("{}: the kernel has {} parameters, the launch record {}", name,
                            parameters, step.param_sizes.size()),
                kWhere);
  }
  std::size_t compiled[3] = {0, 0, 0}, limit = 0;
  OPFORGE_TRY(check(icd.kernel_group_info(kernel, device.id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                          sizeof compiled, compiled, nullptr),
                    "clGetKernelWorkGroupInfo", name));
  for (int i = 0; i < 3; ++i) {
    if (compiled[0] == 0 || compiled[i] == step.block[i]) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{}: the kernel was compiled for groups of {} x {} x {}, the launch "
                            "record gives {} x {} x {}",
                            name, compiled[0], compiled[1], compiled[2], step.block[0],
                            step.block[1], step.block[2]),
                kWhere);
  }
  OPFORGE_TRY(check(icd.kernel_group_info(kernel, device.id, CL_KERNEL_WORK_GROUP_SIZE,
                                          sizeof limit, &limit, nullptr),
                    "clGetKernelWorkGroupInfo", name));
  if (limit == 0) limit = device.group_limit;
  if (product(step.block) == 0 || product(step.block) > limit) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: a group of {} x {} x {} work-items; {} takes 1 to {}", name,
                            step.block[0], step.block[1], step.block[2], device.info.model, limit),
                kWhere);
  }
  return {};
}

}  // namespace

Status OpenClLauncher::resolve(LoadedCode& loaded, const std::string& symbol, int ordinal,
                               PreparedStep& step) {
  if (step.kind == StepKind::kMemset) return {};
  auto& code = static_cast<OpenClCode&>(loaded);
  const std::string name = fmt::format("{} ({})", code.variant, symbol);
  if (step.shared_bytes != 0 || product(step.cluster) > 1 || step.cooperative ||
      step.programmatic || !step.maps.empty()) {
    return fail(
        Code::kInvalidDeclaration,
        fmt::format("{}: OpenCL kernels have no dynamic shared memory, clusters, cooperative "
                    "or programmatic launches, or tensor maps",
                    name),
        kWhere);
  }
  OPFORGE_ASSIGN(const OpenClDevice* device, devices_.open(ordinal));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  const std::lock_guard lock(code.mutex);
  auto& kernel = code.kernels[symbol];
  if (kernel == nullptr) {
    auto made = std::make_unique<Kernel>(*icd);
    OPFORGE_TRY(made->create(code.program->get(), symbol));
    kernel = std::move(made);
  }
  OPFORGE_TRY(check_kernel(*icd, *device, kernel->first(), step, name));
  step.function = kernel.get();
  return {};
}

Status OpenClLauncher::launch(const PreparedStep& step, void* const* tensors, void* workspace,
                              int ordinal, StreamHandle stream) {
  const OpenClDevice* device = devices_.opened(ordinal);  // by load(), unless all steps fill memory
  if (device == nullptr) [[unlikely]] {
    OPFORGE_ASSIGN(device, devices_.open(ordinal));
  }
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  cl_command_queue queue = queue_of(*device, stream);
  if (step.kind == StepKind::kMemset) {
    void* target = patched_pointer(step.memset_tensor, step.memset_add_bytes, tensors, workspace);
    if (target == nullptr || step.memset_bytes == 0) return {};
    return check(icd->svm_fill(queue, target, &step.memset_value, 1,
                               static_cast<std::size_t>(step.memset_bytes), 0, nullptr, nullptr),
                 "clEnqueueSVMMemFill", "filling memory");
  }
  if (product(step.grid) == 0) return {};
  ArgumentBlock arguments(step, tensors, workspace);
  const Kernel::Use kernel(*static_cast<Kernel*>(step.function));
  std::size_t next = 0;  // pointers come in the order of the parameters
  for (std::size_t i = 0; i < step.param_offsets.size(); ++i) {
    const std::uint32_t offset = step.param_offsets[i];
    const std::byte* value = arguments.data() + offset;
    void* pointer = nullptr;
    const bool patched = next < step.pointers.size() && step.pointers[next].offset_bytes == offset;
    if (patched) {
      ++next;
      std::memcpy(&pointer, value, sizeof pointer);
    }
    const auto index = static_cast<cl_uint>(i);
    // A null pointer is passed as a buffer that is not there, which is also how eight zero bytes
    // of a pointer without patch are read.
    const cl_int error = pointer != nullptr
                             ? icd->set_pointer(kernel.get(), index, pointer)
                             : icd->set_argument(kernel.get(), index, step.param_sizes[i], value);
    if (error != CL_SUCCESS) [[unlikely]] {
      return check(error, pointer != nullptr ? "clSetKernelArgSVMPointer" : "clSetKernelArg",
                   fmt::format("setting parameter {}", i));
    }
  }
  std::size_t global[3], local[3];
  for (int i = 0; i < 3; ++i) {
    local[i] = step.block[i];
    global[i] = std::size_t{step.grid[i]} * step.block[i];
  }
  const cl_int error =
      icd->launch(queue, kernel.get(), 3, nullptr, global, local, 0, nullptr, nullptr);
  if (error != CL_SUCCESS) [[unlikely]] {
    return check(error, "clEnqueueNDRangeKernel",
                 fmt::format("launching {} x {} x {} groups of {} x {} x {}", step.grid[0],
                             step.grid[1], step.grid[2], local[0], local[1], local[2]));
  }
  return check(icd->flush(queue), "clFlush", "launching a kernel");
}

}  // namespace opforge::ocl

namespace opforge {

Launcher* opforge_launcher_opencl() {
  // Never destroyed: plans may outlive static destructors.
  static auto* launcher = new ocl::OpenClLauncher(ocl::process_devices());
  return launcher;
}

}  // namespace opforge
