#include "backends/cuda/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "artifact/cubin.hpp"
#include "backends/cuda/nvml.hpp"
#include "base/text.hpp"
#include "runtime/seal.hpp"

namespace opforge::cu {
namespace {

constexpr const char* kWhere = "backends/cuda/launcher";
constexpr std::uint32_t kMaxGridX = 0x7fffffff, kMaxGridYz = 65535;
constexpr std::uint32_t kMaxBlock = 1024, kMaxBlockZ = 64;
constexpr std::uint32_t kPortableCluster = 8, kMaxCluster = 16;
constexpr std::uint32_t kFreeShared = 48 * 1024;  // above it a kernel has to ask for it
constexpr std::size_t kMaxArgumentBytes = 32764;  // sm_70 and later

std::uint64_t product(const std::uint32_t (&v)[3]) { return 1ULL * v[0] * v[1] * v[2]; }
std::string triple(const std::uint32_t (&v)[3]) {
  return fmt::format("({}, {}, {})", v[0], v[1], v[2]);
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(Code::kIncompatible, std::move(message), kWhere);
}

// What the image itself says it is, against what the artifact says.
Status check_image(const Artifact& artifact, const Target& target, std::string_view code,
                   std::string& symbols) {
  const std::string name = to_string(artifact.variant);
  std::vector<std::string> names;
  int arch = 0;
  if (artifact.kind == CodeKind::kPtx) {
    OPFORGE_ASSIGN(const Ptx ptx, read_ptx(code));
    arch = ptx.arch;
    names = ptx.entries;
  } else {
    auto cubin = read_cubin(code);
    if (!cubin)
      return fail(Code::kCorrupt, fmt::format("{}: {}", name, cubin.error().message), kWhere);
    arch = cubin->arch;
    for (const CubinKernel& kernel : cubin->kernels) names.push_back(kernel.symbol);
  }
  symbols = join(names, ", ");
  if (arch == target.arch) return {};
  return refuse(
      fmt::format("{}: the artifact is for {}, but its code is for sm_{}; rebuild the pack", name,
                  target.name, arch));
}

Status check_artifact(const Artifact& artifact, const DeviceInfo& device, bool allow_ptx) {
  const std::string name = to_string(artifact.variant);
  OPFORGE_ASSIGN(const Target target, parse_target(artifact.variant.target));
  if (target.device != DeviceKind::kCuda || target.ptx != (artifact.kind == CodeKind::kPtx)) {
    return refuse(fmt::format("{}: {} code cannot be for target {}", name,
                              code_kind_name(artifact.kind), target.name));
  }
  if (const Support fits = runs_on(target, device, allow_ptx); !fits) {
    return refuse(fmt::format("{}: {}", name, fits.reason()));
  }
  if (artifact.min_driver > device.driver_version) {
    return refuse(
        fmt::format("{}: built with toolkit {} it needs driver {} or later, but this machine's "
                    "driver is for {}; "
                    "update the driver, or build with an older toolkit",
                    name, artifact.toolchain.version, version_text(artifact.min_driver),
                    version_text(device.driver_version)));
  }
  if (target.ptx && is_sealed()) {
    OPFORGE_TRY(may_compile(fmt::format("the driver's PTX compiler for {}", name)));
    return fail(Code::kCompilationSealed,
                fmt::format("{}: PTX may not be compiled in a sealed process", name), kWhere);
  }
  return {};
}

}  // namespace

CudaCode::~CudaCode() {
  if (library != nullptr) driver_.library_unload(library);
  if (module == nullptr) return;
  const ContextScope scope(driver_, devices_.primary_if_ready(module_ordinal), module_ordinal);
  if (scope.result() == kSuccess) driver_.module_unload(module);
}

Result<std::shared_ptr<LoadedCode>> CudaLauncher::load(const Artifact& artifact,
                                                       const std::string& code, int ordinal,
                                                       bool allow_ptx) {
  OPFORGE_ASSIGN(const DeviceInfo* device, devices_.info(ordinal));
  OPFORGE_TRY(check_artifact(artifact, *device, allow_ptx));
  OPFORGE_ASSIGN(const Target target, parse_target(artifact.variant.target));
  OPFORGE_ASSIGN(const Driver* driver, devices_.driver());
  OPFORGE_ASSIGN(const Context context, devices_.primary(ordinal));
  auto loaded = std::make_shared<CudaCode>(*driver, devices_);
  loaded->variant = to_string(artifact.variant);
  OPFORGE_TRY(check_image(artifact, target, code, loaded->symbols));
  const std::string what = fmt::format("loading {} on cuda:{}", loaded->variant, ordinal);
  const ContextScope scope(*driver, context, ordinal);
  OPFORGE_TRY(check(*driver, scope.result(), "cuCtxPushCurrent", what));
  if (driver->has_libraries()) {
    OPFORGE_TRY(check(*driver,
                      driver->library_load(&loaded->library, code.c_str(), nullptr, nullptr, 0,
                                           nullptr, nullptr, 0),
                      "cuLibraryLoadData", what));
  } else {
    OPFORGE_TRY(check(*driver, driver->module_load(&loaded->module, code.c_str()),
                      "cuModuleLoadData", what));
    loaded->module_ordinal = ordinal;
  }
  driver_.store(driver, std::memory_order_release);
  return loaded;
}

std::vector<std::string> CudaLauncher::details() {
  const auto driver = devices_.driver();
  if (!driver) return {};  // the reason is available()'s own
  std::vector<std::string> lines{
      fmt::format("driver {} for {}", (*driver)->path, version_text((*driver)->version))};
  for (const std::string& attempt : (*driver)->attempts) lines.push_back("before it: " + attempt);
  for (std::string& line : management_details(**driver, devices_.devices())) {
    lines.push_back(std::move(line));
  }
  return lines;
}

Status check_launch_limits(const PreparedStep& step, const DeviceInfo& device,
                           std::string_view kernel) {
  const auto over = [&](std::string_view what, std::uint64_t came, std::uint64_t most) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: {} is {}, the limit is {}", kernel, what, came, most), kWhere);
  };
  if (step.grid[0] > kMaxGridX) return over("grid x", step.grid[0], kMaxGridX);
  if (step.grid[1] > kMaxGridYz) return over("grid y", step.grid[1], kMaxGridYz);
  if (step.grid[2] > kMaxGridYz) return over("grid z", step.grid[2], kMaxGridYz);
  if (product(step.block) == 0) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: block {} has no threads", kernel, triple(step.block)), kWhere);
  }
  if (step.block[2] > kMaxBlockZ) return over("block z", step.block[2], kMaxBlockZ);
  if (product(step.block) > kMaxBlock)
    return over("threads in a block", product(step.block), kMaxBlock);
  if (step.arguments.size() > kMaxArgumentBytes)
    return over("bytes of arguments", step.arguments.size(), kMaxArgumentBytes);
  const std::uint64_t cluster = product(step.cluster);
  if (cluster == 0) return {};
  if (device.arch < 90 && cluster > 1) {
    return refuse(fmt::format("{}: clusters of {} need sm_90 or later; cuda:{} is {} (sm_{})",
                              kernel, triple(step.cluster), device.device.ordinal, device.model,
                              device.arch));
  }
  if (cluster > kMaxCluster) return over("blocks in a cluster", cluster, kMaxCluster);
  for (int i = 0; i < 3; ++i) {
    if (step.grid[i] % step.cluster[i] == 0) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{}: grid {} is not a multiple of cluster {}", kernel,
                            triple(step.grid), triple(step.cluster)),
                kWhere);
  }
  return {};
}

namespace {

// The functions that differ between a library's kernel and a module's function.
struct Attributes {
  const Driver& driver;
  bool library;
  int ordinal;
  CuResult get(void* function, int attribute, int* value) const {
    return library ? driver.kernel_get(value, attribute, static_cast<Kernel>(function), ordinal)
                   : driver.function_get(value, attribute, function);
  }
  CuResult set(void* function, int attribute, int value) const {
    return library ? driver.kernel_set(attribute, value, static_cast<Kernel>(function), ordinal)
                   : driver.function_set(function, attribute, value);
  }
};

Status find_function(CudaCode& code, const std::string& symbol, void** function) {
  const Driver& driver = code.driver_;
  Kernel kernel = nullptr;
  const CuResult r = code.library ? driver.library_kernel(&kernel, code.library, symbol.c_str())
                                  : driver.module_function(function, code.module, symbol.c_str());
  if (code.library) *function = kernel;
  if (r == kNotFound) {
    return fail(Code::kNotFound,
                fmt::format("{}: the code has no kernel '{}'; it has: {}", code.variant, symbol,
                            code.symbols.empty() ? "none" : code.symbols),
                kWhere);
  }
  return check(driver, r, code.library ? "cuLibraryGetKernel" : "cuModuleGetFunction",
               fmt::format("finding {} in {}", symbol, code.variant));
}

// The step's parameters against the compiled kernel's own table. Sizes always; offsets as far as
// they follow from the sizes (scalars and pointers lie at multiples of their size, aggregates and
// tensor maps do not say).
Status check_params(const Driver& driver, Kernel kernel, const PreparedStep& step,
                    const std::string& name) {
  std::size_t offset = 0, size = 0, expected = 0;
  bool known = true;
  for (std::size_t i = 0; i < step.param_sizes.size(); ++i) {
    const CuResult r = driver.kernel_param(kernel, i, &offset, &size);
    if (r == kInvalidValue) {
      return refuse(
          fmt::format("{}: the launch record has {} parameters, the compiled kernel has {}", name,
                      step.param_sizes.size(), i));
    }
    OPFORGE_TRY(check(driver, r, "cuKernelGetParamInfo", name));
    const std::size_t own = step.param_sizes[i];
    known = known && (own == 1 || own == 2 || own == 4 || own == 8);
    if (known) expected = (expected + own - 1) / own * own;
    if (size != own || (known && offset != expected)) {
      return refuse(fmt::format(
          "{}: parameter {} is {} bytes{} in the launch record, but {} bytes at offset {} in the "
          "compiled kernel",
          name, i, own, known ? fmt::format(" at offset {}", expected) : "", size, offset));
    }
    expected += own;
  }
  if (driver.kernel_param(kernel, step.param_sizes.size(), &offset, &size) == kSuccess) {
    return refuse(
        fmt::format("{}: the compiled kernel has more than the {} parameters of the launch record",
                    name, step.param_sizes.size()));
  }
  return {};
}

Status allow_shared(CudaCode& code, const Attributes& attributes, const PreparedStep& step,
                    const DeviceInfo& device, const std::string& name) {
  int own = 0;
  OPFORGE_TRY(check(code.driver_, attributes.get(step.function, kFunctionSharedSizeBytes, &own),
                    "cuKernelGetAttribute", name));
  const std::int64_t total = std::int64_t{step.shared_bytes} + own;
  if (total > device.shared_bytes) {
    return refuse(fmt::format(
        "{}: needs {} bytes of shared memory ({} dynamic, {} static), but a block of cuda:{} ({}) "
        "has {}",
        name, total, step.shared_bytes, own, device.device.ordinal, device.model,
        device.shared_bytes));
  }
  if (total <= kFreeShared) return {};
  const std::lock_guard lock(code.mutex);
  std::int64_t& allowed = code.dynamic_shared[{step.function, device.device.ordinal}];
  if (allowed >= step.shared_bytes) return {};  // another plan of this kernel asked for more
  OPFORGE_TRY(check(code.driver_,
                    attributes.set(step.function, kFunctionMaxDynamicSharedBytes,
                                   static_cast<int>(step.shared_bytes)),
                    "cuKernelSetAttribute",
                    fmt::format("{}: {} bytes of dynamic shared memory", name, step.shared_bytes)));
  allowed = step.shared_bytes;
  return {};
}

}  // namespace

Status CudaLauncher::resolve(LoadedCode& loaded, const std::string& symbol, int ordinal,
                             PreparedStep& step) {
  if (step.kind == StepKind::kMemset) return {};
  auto& code = static_cast<CudaCode&>(loaded);
  const Driver& driver = code.driver_;
  OPFORGE_ASSIGN(const DeviceInfo* device, devices_.info(ordinal));
  OPFORGE_ASSIGN(const Context context, devices_.primary(ordinal));
  const std::string name = fmt::format("{} ({})", code.variant, symbol);
  OPFORGE_TRY(check_launch_limits(step, *device, name));
  if (code.module != nullptr && code.module_ordinal != ordinal) {
    return refuse(
        fmt::format("{}: loaded for cuda:{} by a driver without libraries, asked for on cuda:{}",
                    name, code.module_ordinal, ordinal));
  }
  const ContextScope scope(driver, context, ordinal);
  OPFORGE_TRY(check(driver, scope.result(), "cuCtxPushCurrent", name));
  OPFORGE_TRY(find_function(code, symbol, &step.function));
  const bool needs_ex = product(step.cluster) > 1 || step.programmatic || step.cooperative;
  if (needs_ex && driver.launch_ex == nullptr) {
    return refuse(
        fmt::format("{}: clusters, cooperative and programmatic launches need driver {} or later, "
                    "this one is {}",
                    name, version_text(12000), version_text(driver.version)));
  }
  if (!step.maps.empty() && driver.tensor_map_encode == nullptr) {
    return refuse(fmt::format("{}: tensor maps need driver {} or later, this one is {}", name,
                              version_text(12000), version_text(driver.version)));
  }
  if (code.library != nullptr && driver.kernel_function != nullptr) {
    // The driver loads lazily: bring the code to this device now, not at a first launch that may be
    // under capture.
    Function here = nullptr;
    OPFORGE_TRY(check(driver, driver.kernel_function(&here, static_cast<Kernel>(step.function)),
                      "cuKernelGetFunction", name));
  }
  if (code.library != nullptr && driver.kernel_param != nullptr) {
    OPFORGE_TRY(check_params(driver, static_cast<Kernel>(step.function), step, name));
  }
  const Attributes attributes{driver, code.library != nullptr, ordinal};
  int most_threads = 0;
  OPFORGE_TRY(check(driver,
                    attributes.get(step.function, kFunctionMaxThreadsPerBlock, &most_threads),
                    "cuKernelGetAttribute", name));
  if (most_threads > 0 && product(step.block) > static_cast<std::uint64_t>(most_threads)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: block {} has {} threads, the compiled kernel takes {} at most",
                            name, triple(step.block), product(step.block), most_threads),
                kWhere);
  }
  OPFORGE_TRY(allow_shared(code, attributes, step, *device, name));
  if (product(step.cluster) > kPortableCluster) {
    OPFORGE_TRY(check(driver, attributes.set(step.function, kFunctionNonPortableCluster, 1),
                      "cuKernelSetAttribute",
                      fmt::format("{}: a cluster of {} blocks", name, product(step.cluster))));
  }
  return {};
}

namespace {

// A tensor map of one descriptor and base address, as bytes that can be compared.
struct MapKey {
  std::uint64_t base = 0;
  std::uint32_t rank = 0, type = 0;
  std::uint64_t dims[5] = {}, strides[5] = {};
  std::uint32_t box[5] = {}, element_strides[5] = {};
  std::int32_t modes[4] = {};
  bool operator==(const MapKey&) const = default;
};
struct MapSlot {
  MapKey key;
  TensorMap map;
};
constexpr std::size_t kMapSlots = 32;  // of each thread, 14 KB

int map_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kMapFloat64;
    case DType::kF32:
      return kMapFloat32;
    case DType::kF16:
      return kMapFloat16;
    case DType::kBF16:
      return kMapBFloat16;
    case DType::kI32:
      return kMapInt32;
    case DType::kI64:
      return kMapInt64;
    case DType::kU32:
      return kMapUint32;
    case DType::kU64:
      return kMapUint64;
    default:
      return kMapUint8;  // one-byte types: only copied
  }
}

Status encode_map(const Driver& driver, const PreparedStep::MapPatch& patch, DevicePtr base,
                  std::byte* out) {
  thread_local MapSlot slots[kMapSlots];
  MapKey key;
  key.base = base;
  key.rank = static_cast<std::uint32_t>(patch.dims.size());
  key.type = static_cast<std::uint32_t>(map_type(patch.element));
  if (key.rank < 1 || key.rank > 5) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("a tensor map of rank {}; 1 to 5 exist", key.rank), kWhere);
  }
  for (std::size_t i = 0; i < key.rank; ++i) {
    key.dims[i] = patch.dims[i];
    if (i < patch.strides_bytes.size()) key.strides[i] = patch.strides_bytes[i];
    key.box[i] = i < patch.box.size() ? patch.box[i] : 0;
    key.element_strides[i] = i < patch.element_strides.size() ? patch.element_strides[i] : 1;
  }
  key.modes[0] = patch.interleave, key.modes[1] = patch.swizzle;
  key.modes[2] = patch.l2_promotion, key.modes[3] = patch.oob_fill;
  const std::size_t at = (base >> 8 ^ base >> 13 ^ patch.offset_bytes >> 6) % kMapSlots;
  MapSlot& slot = slots[at];
  if (!(slot.key == key)) {
    // The key is set only after the driver took it, so that a refused map is never found again.
    slot.key = MapKey{};
    const CuResult r = driver.tensor_map_encode(
        &slot.map, static_cast<int>(key.type), key.rank, reinterpret_cast<void*>(base), key.dims,
        key.strides, key.box, key.element_strides, key.modes[0], key.modes[1], key.modes[2],
        key.modes[3]);
    if (r != kSuccess) {
      return check(driver, r, "cuTensorMapEncodeTiled",
                   fmt::format("encoding a tensor map (rank {}, dims {}, row stride {} bytes, box "
                               "{}; the base and every "
                               "stride must be multiples of 16 bytes and no dim may be 0)",
                               key.rank, fmt::join(patch.dims, " x "),
                               key.rank > 1 ? key.strides[0] : 0, fmt::join(patch.box, " x ")));
    }
    slot.key = key;
  }
  std::memcpy(out, &slot.map, sizeof(TensorMap));
  return {};
}

DevicePtr base_of(std::int32_t tensor, std::int64_t add, void* const* tensors, void* workspace) {
  const void* base = tensor < 0 ? workspace : tensors[tensor];
  // An absent optional stays null whatever is added to it.
  return base == nullptr ? 0 : reinterpret_cast<DevicePtr>(base) + static_cast<DevicePtr>(add);
}

CuResult launch_with_attributes(const Driver& driver, const PreparedStep& step, StreamHandle stream,
                                void** params) {
  LaunchAttribute attributes[3];
  unsigned count = 0;
  if (product(step.cluster) > 0) {
    attributes[count].id = kLaunchClusterDimension;
    attributes[count++].value.cluster = {step.cluster[0], step.cluster[1], step.cluster[2]};
  }
  if (step.programmatic) {
    attributes[count].id = kLaunchProgrammaticSerialization;
    attributes[count++].value.flag = 1;
  }
  if (step.cooperative) {
    attributes[count].id = kLaunchCooperative;
    attributes[count++].value.flag = 1;
  }
  const LaunchConfig config{step.grid[0],  step.grid[1],  step.grid[2],      step.block[0],
                            step.block[1], step.block[2], step.shared_bytes, stream,
                            attributes,    count};
  return driver.launch_ex(&config, step.function, params, nullptr);
}

Status launch_failed(const Driver& driver, CuResult result, const PreparedStep& step,
                     const char* entry) {
  return check(
      driver, result, entry,
      fmt::format("launching a grid of {} blocks of {} threads with {} bytes of shared memory",
                  triple(step.grid), triple(step.block), step.shared_bytes));
}

Status launch_memset(const Driver& driver, const PreparedStep& step, void* const* tensors,
                     void* workspace, StreamHandle stream) {
  const DevicePtr base = base_of(step.memset_tensor, step.memset_add_bytes, tensors, workspace);
  if (base == 0 || step.memset_bytes == 0) return {};
  const CuResult r = driver.memory_set(base, step.memset_value,
                                       static_cast<std::size_t>(step.memset_bytes), stream);
  if (r == kSuccess) [[likely]]
    return {};
  return check(driver, r, "cuMemsetD8Async", fmt::format("filling {} bytes", step.memset_bytes));
}

}  // namespace

Status CudaLauncher::launch(const PreparedStep& step, void* const* tensors, void* workspace,
                            int ordinal, StreamHandle stream) {
  const Driver& driver = *driver_.load(std::memory_order_acquire);
  const ContextScope scope(driver, devices_.primary_if_ready(ordinal), ordinal);
  if (scope.result() != kSuccess) [[unlikely]]
    return launch_failed(driver, scope.result(), step, "cuCtxPushCurrent");
  if (step.kind == StepKind::kMemset)
    return launch_memset(driver, step, tensors, workspace, stream);
  if (step.grid[0] == 0 || step.grid[1] == 0 || step.grid[2] == 0) return {};
  // The argument block and the list of addresses live on the stack; resolve() has bounded both.
  const std::size_t bytes = step.arguments.size(), count = step.param_offsets.size();
  auto* raw = static_cast<std::byte*>(__builtin_alloca_with_align(bytes + 64, 64 * 8));
  auto** params = static_cast<void**>(__builtin_alloca((count + 1) * sizeof(void*)));
  std::memcpy(raw, step.arguments.data(), bytes);
  for (const PreparedStep::PointerPatch& patch : step.pointers) {
    const DevicePtr value = base_of(patch.tensor, patch.add_bytes, tensors, workspace);
    std::memcpy(raw + patch.offset_bytes, &value, sizeof value);
  }
  for (const PreparedStep::MapPatch& patch : step.maps) {
    OPFORGE_TRY(encode_map(driver, patch,
                           base_of(patch.tensor, patch.add_bytes, tensors, workspace),
                           raw + patch.offset_bytes));
  }
  for (std::size_t i = 0; i < count; ++i) params[i] = raw + step.param_offsets[i];
  if (product(step.cluster) > 1 || step.programmatic || step.cooperative) {
    const CuResult r = launch_with_attributes(driver, step, stream, params);
    return r == kSuccess ? Status{} : launch_failed(driver, r, step, "cuLaunchKernelEx");
  }
  const CuResult r =
      driver.launch(step.function, step.grid[0], step.grid[1], step.grid[2], step.block[0],
                    step.block[1], step.block[2], step.shared_bytes, stream, params, nullptr);
  if (r == kSuccess) [[likely]]
    return {};
  return launch_failed(driver, r, step, "cuLaunchKernel");
}

}  // namespace opforge::cu

namespace opforge {

Launcher* opforge_launcher_cuda() {
  // Never destroyed: plans may outlive static destructors.
  static auto* launcher = new cu::CudaLauncher(cu::process_devices());
  return launcher;
}

}  // namespace opforge
