#include "backends/opencl/toolchain.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "backends/opencl/program.hpp"
#include "base/text.hpp"
#include "runtime/seal.hpp"

namespace opforge::ocl {
namespace {

constexpr const char* kWhere = "backends/opencl/toolchain";

// The library of a platform's driver: objects start with a pointer to its table of functions
// (cl_khr_icd). Empty when that leads nowhere.
std::string driver_library(cl_platform_id platform) {
  void** table = *reinterpret_cast<void***>(platform);
  Dl_info info;
  if (table == nullptr || *table == nullptr || ::dladdr(*table, &info) == 0) return {};
  return info.dli_fname == nullptr ? "" : info.dli_fname;
}

Result<SourceSet> sources_of(const CompileRequest& request) {
  const KernelDecl& kernel = *request.kernel;
  const auto named = [&](Error error) {
    error.message = fmt::format("kernel '{}': {}", kernel.id, error.message);
    return fail(std::move(error));
  };
  if (kernel.sources.empty())
    return named({Code::kInvalidDeclaration, "it names no source", kWhere});
  const std::vector<Path> roots{Path(request.op->folder),
                                source_root() / "backends" / "opencl" / "include"};
  auto set = source_set(kernel.sources, roots);
  if (!set) return named(std::move(set.error()));
  if (!set->system_includes.empty()) {
    return named({Code::kInvalidDeclaration,
                  fmt::format("it includes <{}>; OpenCL kernels get no system headers",
                              *set->system_includes.begin()),
                  kWhere});
  }
  constexpr const char* kHeader = "opforge_opencl.h";
  const bool has = std::any_of(set->files.begin(), set->files.end(),
                               [&](const auto& file) { return file.first == kHeader; });
  if (!has) {
    OPFORGE_ASSIGN(std::string bytes, read_file(roots[1] / kHeader));
    set->files.emplace_back(kHeader, std::move(bytes));
    std::sort(set->files.begin(), set->files.end());
  }
  return std::move(*set);
}

Result<std::vector<std::string>> options_of(const CompileRequest& request,
                                            const OpenClDevice& device) {
  std::vector<std::string> options{"-cl-std=CL1.2"};
  if (device.exact_division) options.emplace_back("-cl-fp32-correctly-rounded-divide-sqrt");
  for (const std::string& option : request.kernel->options) {
    if (!option.starts_with("-cl-") || option.starts_with("-cl-std")) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("kernel '{}': compiler option '{}' is not allowed: only -cl-... "
                              "options, since the code must follow from its key alone",
                              request.kernel->id, option),
                  kWhere);
    }
    options.push_back(option);
  }
  return options;
}

// The order of atomic additions is not fixed.
Status check_no_atomics(const CompileRequest& request, const std::string& source) {
  for (const char* name : {"atomic_", "atom_"}) {
    if (source.find(name) == std::string::npos) continue;
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}' is DETERMINISTIC, but its source has {}* functions",
                            request.kernel->id, name),
                kWhere);
  }
  return {};
}

}  // namespace

bool OpenClToolchain::serves(const Target& target) const {
  return target.device == DeviceKind::kOpenCl;
}

Support OpenClToolchain::available() { return devices_.available(); }

Result<ToolchainStamp> OpenClToolchain::stamp() {
  const std::lock_guard lock(mutex_);
  if (stamp_) return *stamp_;
  if (const Support here = available(); !here)
    return fail(Code::kUnavailable, here.reason(), kWhere);
  Fingerprint digest;
  std::vector<std::string> versions;
  for (const DeviceInfo& info : devices_.devices()) {
    OPFORGE_ASSIGN(const OpenClDevice* device, devices_.open(info.device.ordinal));
    const Identity& identity = device->identity;
    const std::string version = identity.platform + " " + identity.driver;
    if (std::find(versions.begin(), versions.end(), version) != versions.end()) continue;
    versions.push_back(version);
    digest.add("platform", identity.platform).add("driver", identity.driver);
    digest.add("version", identity.platform_version);
    const std::string library = driver_library(device->platform);
    if (library.empty()) continue;
    OPFORGE_ASSIGN(const Digest bytes, file_digest(library));
    digest.add("library", bytes);
  }
  stamp_ = ToolchainStamp{"opencl", join(versions, ", "), digest.finish()};
  return *stamp_;
}

Status OpenClToolchain::fingerprint(const CompileRequest& request, Fingerprint& into) {
  const auto platform = std::string_view(request.target.name).substr(sizeof "opencl:" - 1);
  OPFORGE_ASSIGN(const OpenClDevice* device, devices_.of_platform(platform));
  OPFORGE_ASSIGN(const auto options, options_of(request, *device));
  OPFORGE_ASSIGN(const SourceSet files, sources_of(request));
  into.add("generator", std::int64_t{1});
  into.add("device", device->identity.device).add("driver", device->identity.driver);
  into.add("platform", device->identity.platform_version);
  for (const std::string& option : options) into.add("option", option);
  for (const std::string& name : request.kernel->sources) into.add("source", name);
  into.add("files", static_cast<std::int64_t>(files.files.size()));
  for (const auto& [name, bytes] : files.files) into.add(name, sha256(bytes));
  return {};
}

// What PoCL writes into a binary depends on which names its compiler has met in this process: the
// first program differs from the same one compiled later. So the first is one of ours, with what
// makes the compiler meet them: a loop, local memory, a barrier, a fixed group size.
Status OpenClToolchain::warm_up(const Icd& icd, const OpenClDevice& device) {
  const std::lock_guard lock(warming_);
  if (warm_.contains(device.info.device.ordinal)) return {};
  constexpr const char* kName = "the first program of this process";
  const std::string source =
      "kernel __attribute__((reqd_work_group_size(64, 1, 1))) void opforge_first(\n"
      "    global const float* x, global float* y, long n, float a) {\n"
      "  local float part[64];\n"
      "  const uint t = (uint)get_local_id(0);\n"
      "  float sum = 0.0f;\n"
      "  for (long i = t; i < n; i += 64) sum += exp(x[i]) * a;\n"
      "  part[t] = sum;\n"
      "  for (uint s = 32; s > 0; s /= 2) {\n"
      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
      "    if (t < s) part[t] += part[t + s];\n"
      "  }\n"
      "  if (t == 0) y[get_group_id(0)] = part[0];\n"
      "}\n";
  OPFORGE_ASSIGN(const BuiltProgram built,
                 build_source(icd, device, source, {"-cl-std=CL1.2"}, kName));
  OPFORGE_TRY(binary_of(icd, *built.program, kName));
  warm_.insert(device.info.device.ordinal);
  return {};
}

Result<Compiled> OpenClToolchain::compile(const CompileRequest& request) {
  const std::string name =
      fmt::format("{} of {}", opforge::to_string(request.variant), request.variant.op);
  OPFORGE_TRY(may_compile(fmt::format("OpenCL for {}", name)));
  const auto platform = std::string_view(request.target.name).substr(sizeof "opencl:" - 1);
  OPFORGE_ASSIGN(const OpenClDevice* found, devices_.of_platform(platform));
  OPFORGE_ASSIGN(const OpenClDevice* device, devices_.open(found->info.device.ordinal));
  OPFORGE_ASSIGN(const Icd* icd, process_icd());
  OPFORGE_ASSIGN(const SourceSet files, sources_of(request));
  OPFORGE_ASSIGN(GeneratedSource generated, generate_source(request, files));
  if (request.variant.tier == Tier::kDeterministic)
    OPFORGE_TRY(check_no_atomics(request, generated.text));
  OPFORGE_TRY(warm_up(*icd, *device));
  CodeImage image;
  image.built_for = device->identity;
  OPFORGE_ASSIGN(image.options, options_of(request, *device));
  OPFORGE_ASSIGN(BuiltProgram built,
                 build_source(*icd, *device, generated.text, image.options, name));
  OPFORGE_ASSIGN(image.binary, binary_of(*icd, *built.program, name));
  make_reproducible(image.binary, request.code_key.hex());
  image.source = std::move(generated.text);
  // A binary that the driver would not take back is found here and not in production.
  OPFORGE_TRY(load_binary(*icd, *device, image.binary, name));
  Compiled compiled;
  compiled.kind = CodeKind::kOpenClBinary;
  compiled.code = pack_image(image);
  compiled.symbols = std::move(generated.symbols);
  compiled.launch = request.kernel->launch;
  compiled.resources.code_bytes = static_cast<std::int64_t>(image.binary.size());
  compiled.log = std::move(built.log);
  return compiled;
}

}  // namespace opforge::ocl

namespace opforge {

Toolchain* opforge_toolchain_opencl() {
  static auto* toolchain = new ocl::OpenClToolchain(ocl::process_devices());
  return toolchain;
}

}  // namespace opforge
