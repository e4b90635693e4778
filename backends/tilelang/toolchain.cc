// TileLang kernels to cubins: lowered by a worker process, compiled by nvcc.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "backends/tilelang/record.hpp"
#include "base/text.hpp"
#include "toolchain/source.hpp"

namespace opforge::tilelang {
namespace {

constexpr const char* kWhere = "backends/tilelang/toolchain";
constexpr int kLeastArch = 80;
constexpr int kCuda13Abi = 8;  // of cubins made by toolkits from 13.0 on

DslInfo tilelang_info() {
  DslInfo info;
  info.backend = info.package = "tilelang";
  info.minors = {"0.1"};  // 0.1.15 is what was checked, and what the requirements pin
  info.environment = {{"TILELANG_CACHE_DIR", "{folder}/cache"},
                      {"TILELANG_TMP_DIR", "{folder}/tmp"},
                      {"TILELANG_DISABLE_CACHE", "1"}};
  return info;
}

// nvcc: OPFORGE_NVCC alone if it is set; else CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda.
Result<Path> find_nvcc() {
  std::vector<Path> places;
  if (const char* named = std::getenv("OPFORGE_NVCC"); named != nullptr && *named != '\0') {
    places.emplace_back(named);
  } else {
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
      if (const char* root = std::getenv(variable); root != nullptr && *root != '\0')
        places.emplace_back(Path(root) / "bin" / "nvcc");
    }
    if (const char* path = std::getenv("PATH"); path != nullptr) {
      for (const std::string& folder : split(path, ':')) places.emplace_back(Path(folder) / "nvcc");
    }
    places.emplace_back("/usr/local/cuda/bin/nvcc");
  }
  for (const Path& place : places) {
    std::error_code error;
    const Path real = std::filesystem::canonical(place, error);
    if (!error && std::filesystem::is_regular_file(real, error)) return real;
  }
  return fail(
      Code::kToolchain,
      "TileLang's code is compiled by nvcc, which is not here: install the CUDA toolkit, or "
      "name it with OPFORGE_NVCC",
      kWhere);
}

// What really compiles: the driver program, the compiler proper, the assembler, and the file that
// names the toolkit's release (its headers come with it).
Status add_nvcc(const Path& nvcc, Fingerprint& into) {
  const Path root = nvcc.parent_path().parent_path();
  bool found = false;
  for (const Path& file : {nvcc, root / "nvvm/bin/cicc", root / "bin/ptxas", root / "version.json",
                           root / "include/cuda.h", root / "nvvm/libdevice/libdevice.10.bc"}) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    OPFORGE_ASSIGN(const Digest digest, file_digest(file));
    into.add(file.filename().string(), digest);
    found = true;
  }
  if (found) return {};
  return fail(Code::kToolchain, fmt::format("'{}' cannot be read", nvcc.string()), kWhere);
}

class TileLangToolchain : public DslToolchain {
 public:
  TileLangToolchain() : DslToolchain(tilelang_info()) {}

  bool serves(const Target& target) const override {
    return target.device == DeviceKind::kCuda && !target.ptx && target.arch >= kLeastArch;
  }

  Support available() override {
    if (const Support own = DslToolchain::available(); !own) return own;
    const auto nvcc = find_nvcc();
    return nvcc ? Support::yes() : Support::no(nvcc.error().message);
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    const std::string subject = dsl_subject(request);
    OPFORGE_ASSIGN(nlohmann::json job, question(request));
    OPFORGE_ASSIGN(const Path nvcc, find_nvcc());
    job["nvcc"] = nvcc.string();
    OPFORGE_ASSIGN(const DslAnswer answer, ask(request, std::move(job)));
    OPFORGE_ASSIGN(TileKernels kernels, launch_record(request, answer.values));
    const auto code = answer.blobs.find("cubin");
    if (code == answer.blobs.end() || code->second.empty())
      return fail(Code::kToolchain, fmt::format("{}: the compiler gave no code", subject), kWhere);
    const auto source = answer.blobs.find("source");
    if (request.variant.tier == Tier::kDeterministic && source != answer.blobs.end() &&
        source->second.find("atomic") != std::string::npos) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{} is DETERMINISTIC, but its CUDA source has atomics", subject),
                  kWhere);
    }
    Compiled compiled;
    compiled.kind = CodeKind::kCubin;
    compiled.code = code->second;
    compiled.launch = std::move(kernels.record);
    for (const std::string& entry : kernels.entries) compiled.symbols[entry] = entry;
    OPFORGE_TRY(check_image(request, compiled));
    return compiled;
  }

 protected:
  Status inputs(const CompileRequest& request, Fingerprint& into) override {
    OPFORGE_ASSIGN(const nlohmann::json job, question(request));
    into.add("question", job.dump());
    OPFORGE_ASSIGN(const Path nvcc, find_nvcc());
    return add_nvcc(nvcc, into);
  }

 private:
  static Result<nlohmann::json> question(const CompileRequest& request) {
    const LaunchRecord& launch = request.kernel->launch;
    if (launch.steps.size() != 1 || launch.steps.front().kind != StepKind::kKernel) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("kernel '{}': a TileLang kernel has one declared step; what its host "
                              "code launches is read from it",
                              request.kernel->id),
                  kWhere);
    }
    OPFORGE_ASSIGN(const auto options, dsl_options(request, known_options()));
    return nlohmann::json{{"entry", launch.steps.front().entry},
                          {"options", options},
                          {"flags", nlohmann::json::array()}};
  }

  // The cubin's own words against the record.
  static Status check_image(const CompileRequest& request, Compiled& compiled) {
    const std::string subject = dsl_subject(request);
    OPFORGE_ASSIGN(const Cubin cubin, read_cubin(compiled.code));
    if (cubin.arch != request.target.arch) {
      return fail(Code::kToolchain, fmt::format("{}: asked for {}, nvcc made sm_{}", subject,
                                                request.target.name, cubin.arch));
    }
    for (const LaunchStep& step : compiled.launch.steps) {
      const CubinKernel* kernel = cubin.find(step.entry);
      if (kernel == nullptr) {
        return fail(Code::kToolchain,
                    fmt::format("{}: its code has no kernel '{}'", subject, step.entry), kWhere);
      }
      OPFORGE_TRY(check_parameters(*kernel, parameter_sizes(step), subject));
      std::int64_t threads = 1;
      for (const std::string& extent : step.block) {
        OPFORGE_ASSIGN(const std::int64_t value, variant_integer(request, extent));
        threads *= value;
      }
      const auto shared = variant_integer(request, step.shared_bytes);
      OPFORGE_TRY(check_block_limits(request.target, threads,
                                     kernel->shared_bytes + (shared ? *shared : 0), subject));
      compiled.resources.registers = std::max(compiled.resources.registers, kernel->registers);
      compiled.resources.shared_bytes =
          std::max(compiled.resources.shared_bytes, kernel->shared_bytes);
      compiled.resources.local_bytes =
          std::max(compiled.resources.local_bytes, kernel->local_bytes);
      compiled.resources.code_bytes += kernel->code_bytes;
    }
    compiled.min_driver = cubin.abi >= kCuda13Abi ? 13000 : 12000;
    return {};
  }
};

}  // namespace
}  // namespace opforge::tilelang

namespace opforge {

Toolchain* opforge_toolchain_tilelang() {
  static auto* toolchain = new tilelang::TileLangToolchain;
  return toolchain;
}

}  // namespace opforge
