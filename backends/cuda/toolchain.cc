#include "backends/cuda/toolchain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "artifact/cubin.hpp"
#include "base/text.hpp"
#include "operator/expression.hpp"
#include "runtime/seal.hpp"
#include "toolchain/codegen.hpp"
#include "toolchain/source.hpp"

namespace opforge::cu {
namespace {

constexpr const char* kWhere = "backends/cuda/toolchain";
constexpr int kLeastArch = 80;  // bf16 conversions and reductions in hardware
constexpr const char* kHelperHeader = "opforge_cuda.cuh";

std::string subject(const CompileRequest& request) {
  return fmt::format("{} of {}", to_string(request.variant), request.variant.op);
}

// Threads of a block, when its expressions need nothing but the variant's values; 0 otherwise.
std::int64_t constant_block(const LaunchStep& step, const Variant& variant) {
  ValueMap values = variant.values;
  values.insert(variant.baked.begin(), variant.baked.end());
  std::int64_t threads = 1;
  for (const std::string& text : step.block) {
    if (text.empty()) continue;
    const auto parsed = Expression::parse(text);
    const auto value = parsed ? parsed->evaluate_int(lookup_in(values)) : fail(parsed.error());
    if (!value || *value < 1 || *value > 1024) return 0;
    threads *= *value;
  }
  return threads <= 1024 ? threads : 0;
}

// The largest block that any step gives this entry; 0 when one of them is not constant.
std::int64_t entry_block(const LaunchRecord& launch, const std::string& entry,
                         const Variant& variant) {
  std::int64_t most = 0;
  for (const LaunchStep& step : launch.steps) {
    if (step.kind != StepKind::kKernel || step.entry != entry) continue;
    const std::int64_t threads = constant_block(step, variant);
    if (threads == 0) return 0;
    most = std::max(most, threads);
  }
  return most;
}

std::vector<std::string> standard_options(const CompileRequest& request) {
  const std::string arch = request.target.name;  // "sm_90a", "compute_80"
  std::vector<std::string> options{"--gpu-architecture=" + arch, "--std=c++20",
                                   "--device-as-default-execution-space"};
  const auto& own = request.kernel->options;
  const bool fmad = std::any_of(own.begin(), own.end(), [](const std::string& option) {
    return option.starts_with("--fmad") || option.starts_with("-fmad");
  });
  if (!fmad) options.push_back("--fmad=true");
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

// Options that would bring in files which the code key does not cover, or put paths into the code.
Status check_options(const CompileRequest& request) {
  for (const std::string& option : request.kernel->options) {
    for (const std::string_view bad :
         {"-I", "--include-path", "-include", "--pre-include", "-lineinfo", "--generate-line-info",
          "-G", "--device-debug", "-arch", "--gpu-architecture", "-dlto", "--dlink-time-opt"}) {
      if (!option.starts_with(bad)) continue;
      return fail(Code::kInvalidDeclaration,
                  fmt::format("kernel '{}': compiler option '{}' is not allowed: the code must "
                              "follow from its key alone",
                              request.kernel->id, option),
                  kWhere);
    }
  }
  return {};
}

}  // namespace

Result<GeneratedUnit> generate_unit(const CompileRequest& request) {
  const Signature& signature = request.op->signature;
  const LaunchRecord& launch = request.kernel->launch;
  if (request.kernel->sources.empty()) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}' names no source", request.kernel->id), kWhere);
  }
  OPFORGE_ASSIGN(const std::string variant, variant_struct(signature, request.variant));
  GeneratedUnit unit;
  unit.text = fmt::format("#include \"{}\"\n#include \"{}\"\n{}", kHelperHeader,
                          request.kernel->sources.front(), variant);
  for (const LaunchStep* step : entry_steps(launch)) {
    auto parameters = entry_parameters(signature, *step);
    if (!parameters) {
      Error error = parameters.error();
      error.message = fmt::format("kernel '{}': {}", request.kernel->id, error.message);
      return fail(std::move(error));
    }
    const std::string symbol = entry_symbol(request.variant, request.code_key, step->entry);
    std::vector<std::string> declared, passed;
    std::vector<std::uint32_t>& sizes = unit.param_sizes[symbol];
    for (const EntryParameter& parameter : *parameters) {
      const bool map = parameter.type == ParamType::kTensorMap;
      declared.push_back(fmt::format(
          "{} {}", map ? "const __grid_constant__ " + parameter.c_type : parameter.c_type,
          parameter.name));
      passed.push_back(parameter.name);
      sizes.push_back(static_cast<std::uint32_t>(param_size_bytes(parameter.type)));
    }
    const std::int64_t threads = entry_block(launch, step->entry, request.variant);
    const std::string bounds = threads > 0 ? fmt::format("__launch_bounds__({}) ", threads) : "";
    unit.text += fmt::format("extern \"C\" __global__ void {}{}({}) {{\n  using namespace opforge;\n  {}<V>({});\n}}\n", bounds,
                             symbol, join(declared, ", "), step->entry, join(passed, ", "));
    unit.symbols[step->entry] = symbol;
  }
  if (unit.symbols.empty()) {
    return fail(Code::kInvalidDeclaration,
                fmt::format("kernel '{}' launches nothing", request.kernel->id), kWhere);
  }
  return unit;
}

bool CudaToolchain::serves(const Target& target) const {
  return target.device == DeviceKind::kCuda && target.arch >= kLeastArch;
}

Result<const Nvrtc*> CudaToolchain::nvrtc() {
  const std::lock_guard lock(mutex_);
  if (nvrtc_ != nullptr) return nvrtc_.get();
  if (!fixed_places_) places_ = nvrtc_places();
  // The headers of the toolkit that the library belongs to, before all others.
  OPFORGE_ASSIGN(nvrtc_, Nvrtc::open(places_.libraries));
  if (!fixed_places_) {
    const Path lib = Path(nvrtc_->path()).parent_path();
    for (const Path& near :
         {lib / "../include", lib / "../../include", lib / "../../cuda_runtime/include"}) {
      std::error_code error;
      if (std::getenv("OPFORGE_CUDA_INCLUDE") != nullptr ||
          !std::filesystem::exists(near / "cuda_fp16.h", error))
        continue;
      places_.includes.insert(places_.includes.begin(), near.lexically_normal());
      break;
    }
  }
  return nvrtc_.get();
}

Support CudaToolchain::available() {
  const auto found = nvrtc();
  return found ? Support::yes() : Support::no(found.error().message);
}

Result<ToolchainStamp> CudaToolchain::stamp() {
  OPFORGE_ASSIGN(const Nvrtc* compiler, nvrtc());
  OPFORGE_ASSIGN(const Digest digest, compiler->digest());
  return ToolchainStamp{"nvrtc", fmt::format("{}.{}", compiler->major(), compiler->minor()),
                        digest};
}

Result<std::vector<std::pair<std::string, std::string>>> CudaToolchain::headers(
    const CompileRequest& request) {
  OPFORGE_TRY(nvrtc());
  const std::vector<Path> roots{Path(request.op->folder),
                                source_root() / "backends" / "cuda" / "include"};
  auto set = source_set(request.kernel->sources, roots);
  if (!set) {
    Error error = set.error();
    error.message = fmt::format("kernel '{}': {}", request.kernel->id, error.message);
    return fail(std::move(error));
  }
  auto files = std::move(set->files);
  const auto has = [&](std::string_view name) {
    return std::any_of(files.begin(), files.end(),
                       [&](const auto& file) { return file.first == name; });
  };
  if (!has(kHelperHeader)) {
    OPFORGE_ASSIGN(std::string bytes, read_file(roots[1] / kHelperHeader));
    files.emplace_back(kHelperHeader, std::move(bytes));
  }
  for (const std::string& name : set->system_includes) {
    if (is_toolkit_header(name)) continue;
    return fail(
        Code::kInvalidDeclaration,
        fmt::format("kernel '{}' includes <{}>, which kernels do not get; the toolkit's "
                    "half-precision headers "
                    "(cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, ...) and opforge_cuda.cuh are there",
                    request.kernel->id, name),
        kWhere);
  }
  if (!set->system_includes.empty()) {
    OPFORGE_ASSIGN(auto toolkit, toolkit_headers(places_.includes));
    files.insert(files.end(), std::make_move_iterator(toolkit.begin()),
                 std::make_move_iterator(toolkit.end()));
  }
  // A file in a folder is included by its own folder's files without it.
  const std::size_t count = files.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string base = Path(files[i].first).filename().string();
    if (base != files[i].first && !has(base)) files.emplace_back(base, files[i].second);
  }
  return files;
}

Status CudaToolchain::fingerprint(const CompileRequest& request, Fingerprint& into) {
  OPFORGE_TRY(check_options(request));
  OPFORGE_ASSIGN(const auto files, headers(request));
  into.add("generator", std::int64_t{1});
  for (const std::string& option : standard_options(request)) into.add("option", option);
  for (const std::string& name : request.kernel->sources) into.add("source", name);
  into.add("files", static_cast<std::int64_t>(files.size()));
  for (const auto& [name, bytes] : files) into.add(name, sha256(bytes));
  return {};
}

namespace {

// The compiled parameter table against the one that launches will use: a difference here would be
// silent garbage there.
Status check_table(const CubinKernel& kernel, const std::vector<std::uint32_t>& sizes,
                   const std::string& name) {
  if (kernel.params.size() != sizes.size()) {
    return fail(Code::kToolchain,
                fmt::format("{}: {} compiled with {} parameters, the launch record has {}", name,
                            kernel.symbol, kernel.params.size(), sizes.size()),
                kWhere);
  }
  std::uint32_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint32_t align = sizes[i] > 8 ? 64 : sizes[i];
    offset = (offset + align - 1) / align * align;
    if (kernel.params[i].size_bytes != sizes[i] || kernel.params[i].offset_bytes != offset) {
      return fail(Code::kToolchain,
                  fmt::format("{}: parameter {} of {} was compiled as {} bytes at {}, the launch "
                              "record has {} bytes at {}",
                              name, i, kernel.symbol, kernel.params[i].size_bytes,
                              kernel.params[i].offset_bytes, sizes[i], offset),
                  kWhere);
    }
    offset += sizes[i];
  }
  return {};
}

Result<Resources> check_cubin(const std::string& code, const GeneratedUnit& unit,
                              const Target& target, const std::string& name) {
  OPFORGE_ASSIGN(const Cubin cubin, read_cubin(code));
  if (cubin.arch != target.arch) {
    return fail(
        Code::kToolchain,
        fmt::format("{}: asked for {}, the compiler made sm_{}", name, target.name, cubin.arch),
        kWhere);
  }
  Resources resources;
  for (const auto& [symbol, sizes] : unit.param_sizes) {
    const CubinKernel* kernel = cubin.find(symbol);
    if (kernel == nullptr) {
      return fail(Code::kToolchain,
                  fmt::format("{}: the compiler made no kernel '{}'", name, symbol), kWhere);
    }
    OPFORGE_TRY(check_table(*kernel, sizes, name));
    resources.registers = std::max(resources.registers, kernel->registers);
    resources.shared_bytes = std::max(resources.shared_bytes, kernel->shared_bytes);
    resources.local_bytes = std::max(resources.local_bytes, kernel->local_bytes);
    resources.code_bytes += kernel->code_bytes;
  }
  return resources;
}

}  // namespace

Result<Compiled> CudaToolchain::compile(const CompileRequest& request) {
  const std::string name = subject(request);
  OPFORGE_TRY(may_compile(fmt::format("NVRTC for {}", name)));
  OPFORGE_ASSIGN(const Nvrtc* compiler, nvrtc());
  OPFORGE_TRY(check_options(request));
  if (!serves(request.target) || !compiler->knows_arch(request.target.arch)) {
    return fail(
        Code::kToolchain,
        fmt::format("{}: NVRTC {}.{} cannot compile for {}; it knows {} (sm_80 or later is needed)",
                    name, compiler->major(), compiler->minor(), request.target.name,
                    compiler->known_archs()),
        kWhere);
  }
  OPFORGE_ASSIGN(GeneratedUnit unit, generate_unit(request));
  OPFORGE_ASSIGN(auto files, headers(request));
  auto output = compiler->compile({unit.text, std::move(files), standard_options(request)});
  if (!output) {
    Error error = output.error();
    error.message = fmt::format("kernel '{}' ({}): {}", request.kernel->id, name, error.message);
    return fail(std::move(error));
  }
  if (request.variant.tier == Tier::kDeterministic)
    OPFORGE_TRY(check_no_float_atomics(output->ptx));
  Compiled compiled;
  compiled.log = std::move(output->log);
  compiled.launch = request.kernel->launch;
  compiled.symbols = unit.symbols;
  if (request.target.ptx) {
    compiled.kind = CodeKind::kPtx;
    compiled.code = std::move(output->ptx);
    compiled.resources.code_bytes = static_cast<std::int64_t>(compiled.code.size());
    // Drivers read PTX up to their own version only, minor number included.
    compiled.min_driver = compiler->major() * 1000 + compiler->minor() * 10;
  } else {
    compiled.kind = CodeKind::kCubin;
    compiled.code = std::move(output->cubin);
    compiled.min_driver = compiler->major() * 1000;
    OPFORGE_ASSIGN(compiled.resources, check_cubin(compiled.code, unit, request.target, name));
  }
  if (compiled.code.empty())
    return fail(Code::kToolchain, fmt::format("{}: the compiler gave nothing", name), kWhere);
  return compiled;
}

}  // namespace opforge::cu

namespace opforge {

Toolchain* opforge_toolchain_cuda() {
  static auto* toolchain = new cu::CudaToolchain;
  return toolchain;
}

}  // namespace opforge
