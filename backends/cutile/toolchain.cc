// cuTile kernels to cubins: bytecode from a worker process, assembled by our own call of tileiras.
#include <fmt/format.h>

#include "artifact/cubin.hpp"
#include "backends/cutile/record.hpp"
#include "base/process.hpp"
#include "runtime/seal.hpp"
#include "toolchain/dsl_toolchain.hpp"
#include "toolchain/host_compiler.hpp"

namespace opforge::cutile {
namespace {

constexpr const char* kWhere = "backends/cutile/toolchain";
constexpr double kAssemblerLimitS = 300;

DslInfo cutile_info() {
  DslInfo info;
  info.backend = "cutile";
  info.package = "cuda-tile";
  info.minors = {"1.7"};
  return info;
}

// "sm_90" for sm_90a: the assembler names architectures without their suffix, and from sm_90 on its
// code runs on exactly that one.
std::string gpu_name(const Target& target) { return fmt::format("sm_{}", target.arch); }

class CutileToolchain : public DslToolchain {
 public:
  CutileToolchain() : DslToolchain(cutile_info()) {}

  bool serves(const Target& target) const override {
    return target.device == DeviceKind::kCuda && !target.ptx && target.arch >= 80 &&
           target.arch_specific == (target.arch >= 90);
  }

  Support available() override {
    const auto found = assembler();
    return found ? Support::yes() : Support::no(found.error().message);
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    OPFORGE_ASSIGN(nlohmann::json job, question(request, gpu_name(request.target)));
    OPFORGE_ASSIGN(const DslAnswer answer, ask(request, std::move(job)));
    const std::string subject = dsl_subject(request);
    const auto bytecode = answer.blobs.find("bytecode");
    if (bytecode == answer.blobs.end())
      return fail(Code::kToolchain, fmt::format("{}: no bytecode came out", subject), kWhere);
    Compiled compiled;
    compiled.kind = CodeKind::kCubin;
    OPFORGE_ASSIGN(compiled.launch, launch_record(request, answer.values));
    OPFORGE_ASSIGN(compiled.code, assemble(request, bytecode->second, compiled.log));
    const std::string symbol = answer.values.value("name", "");
    compiled.symbols[compiled.launch.steps[0].entry] = symbol;
    OPFORGE_ASSIGN(const Cubin cubin, read_cubin(compiled.code));
    const CubinKernel* kernel = cubin.find(symbol);
    if (cubin.arch != request.target.arch || kernel == nullptr) {
      return fail(Code::kToolchain,
                  fmt::format("{}: the assembler made code for sm_{} {} kernel '{}'", subject,
                              cubin.arch, kernel == nullptr ? "without" : "with", symbol),
                  kWhere);
    }
    OPFORGE_TRY(check_parameters(*kernel, parameter_sizes(compiled.launch.steps[0]), subject));
    OPFORGE_TRY(check_block_limits(request.target, kernel->required_block[0], kernel->shared_bytes,
                                   subject));
    compiled.resources = {.registers = kernel->registers,
                          .shared_bytes = kernel->shared_bytes,
                          .local_bytes = kernel->local_bytes,
                          .code_bytes = kernel->code_bytes};
    compiled.min_driver = 13000;  // tile kernels need the driver's library interface of 580
    return compiled;
  }

 protected:
  Status inputs(const CompileRequest& request, Fingerprint& into) override {
    OPFORGE_ASSIGN(const nlohmann::json job, question(request, gpu_name(request.target)));
    into.add("question", job.dump());
    return {};
  }

 private:
  Result<Path> assembler() {
    OPFORGE_ASSIGN(const auto venv, environment());
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(venv->site_packages / "nvidia", error)) {
      const Path path = entry.path() / "bin" / "tileiras";
      if (std::filesystem::is_regular_file(path, error)) return path;
    }
    return fail(
        Code::kToolchain,
        fmt::format("the environment '{}' has no assembler (nvidia/*/bin/tileiras): make it "
                    "anew with `opforge doctor --install cutile --again`",
                    venv->root.string()),
        kWhere);
  }

  // Without CUDA_HOME and CUDA_PATH, by which it would find another libnvvm than its own.
  Result<std::string> assemble(const CompileRequest& request, const std::string& bytecode,
                               std::string& log) {
    OPFORGE_TRY(may_compile(fmt::format("tileiras for {}", dsl_subject(request))));
    OPFORGE_ASSIGN(const Path program, assembler());
    std::error_code error;
    const Path parent = std::filesystem::temp_directory_path(error);
    OPFORGE_ASSIGN(const TempDir folder,
                   TempDir::create(error ? Path("/tmp") : parent, "opforge-cutile"));
    OPFORGE_TRY(write_file_atomic(folder.path() / "in.tileirbc", bytecode));
    ProcessSpec spec;
    spec.argv = {
        program.string(), "in.tileirbc", "--gpu-name", gpu_name(request.target), "-O3", "-o",
        "out.cubin"};
    spec.clear_environment = true;
    spec.environment = {
        {"HOME", folder.path().string()}, {"TMPDIR", folder.path().string()}, {"LC_ALL", "C"}};
    spec.working_dir = folder.path();
    spec.time_limit_s = kAssemblerLimitS;
    spec.memory_limit_bytes = std::uint64_t{8} << 30;
    OPFORGE_ASSIGN(const ProcessResult result, run_process(spec));
    auto code = read_file(folder.path() / "out.cubin");
    if (result.end == ProcessEnd::kExited && result.exit_code == 0 && code && !code->empty()) {
      log = result.errors;
      return code;
    }
    return fail(Code::kToolchain,
                fmt::format("{}: tileiras {}\n{}", dsl_subject(request), result.describe(),
                            last_lines(result.errors + result.output)),
                kWhere);
  }
};

}  // namespace
}  // namespace opforge::cutile

namespace opforge {

Toolchain* opforge_toolchain_cutile() {
  static auto* toolchain = new cutile::CutileToolchain;  // as long as threads may compile
  return toolchain;
}

}  // namespace opforge
