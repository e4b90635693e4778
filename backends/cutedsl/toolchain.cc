// CuTe DSL kernels to cubins, compiled ahead of time by a worker process.
#include <fmt/format.h>

#include "artifact/cubin.hpp"
#include "backends/cutedsl/record.hpp"

namespace opforge::cutedsl {
namespace {

constexpr const char* kWhere = "backends/cutedsl/toolchain";
constexpr int kLeastArch = 80;
constexpr int kCuda13Abi = 8;  // of cubins made by toolkits from 13.0 on

DslInfo cutedsl_info() {
  DslInfo info;
  info.backend = "cutedsl";
  info.package = "nvidia-cutlass-dsl";
  info.minors = {"4.8"};
  info.environment = {{"CUTE_DSL_DISABLE_FILE_CACHING", "1"},
                      {"CUTE_DSL_CACHE_DIR", "{folder}/cache"}};
  return info;
}

class CuteDslToolchain : public DslToolchain {
 public:
  CuteDslToolchain() : DslToolchain(cutedsl_info()) {}

  bool serves(const Target& target) const override {
    return target.device == DeviceKind::kCuda && !target.ptx && target.arch >= kLeastArch;
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    const std::string subject = dsl_subject(request);
    OPFORGE_ASSIGN(nlohmann::json job, question(request));
    OPFORGE_ASSIGN(const DslAnswer answer, ask(request, std::move(job)));
    Compiled compiled;
    OPFORGE_ASSIGN(compiled.launch, launch_record(request, answer.values));
    const auto code = answer.blobs.find("cubin");
    if (code == answer.blobs.end() || code->second.empty())
      return fail(Code::kToolchain, fmt::format("{}: the compiler gave no code", subject), kWhere);
    if (const auto ptx = answer.blobs.find("ptx");
        ptx != answer.blobs.end() && request.variant.tier == Tier::kDeterministic) {
      OPFORGE_TRY(check_no_float_atomics(ptx->second));
    }
    compiled.kind = CodeKind::kCubin;
    compiled.code = code->second;
    OPFORGE_TRY(check_image(request, compiled));
    return compiled;
  }

 protected:
  Status inputs(const CompileRequest& request, Fingerprint& into) override {
    OPFORGE_ASSIGN(const nlohmann::json job, question(request));
    into.add("question", job.dump());
    return {};
  }

 private:
  // The DSL names the kernel; it is the only one. Its parameter table and required block are
  // compared with the record.
  static Status check_image(const CompileRequest& request, Compiled& compiled) {
    const std::string subject = dsl_subject(request);
    const auto wrong = [&](std::string message) {
      return fail(Code::kToolchain, fmt::format("{}: {}", subject, message), kWhere);
    };
    OPFORGE_ASSIGN(const Cubin cubin, read_cubin(compiled.code));
    if (cubin.arch != request.target.arch) {
      return wrong(
          fmt::format("asked for {}, CuTe DSL made sm_{}", request.target.name, cubin.arch));
    }
    if (cubin.kernels.size() != 1)
      return wrong(fmt::format("its code has {} kernels, one is expected", cubin.kernels.size()));
    const CubinKernel& kernel = cubin.kernels.front();
    const LaunchStep& step = compiled.launch.steps.front();
    compiled.symbols[step.entry] = kernel.symbol;
    OPFORGE_TRY(check_parameters(kernel, parameter_sizes(step), subject));
    std::int64_t threads = 1, shared = kernel.shared_bytes;
    for (std::size_t i = 0; i < 3; ++i) {
      OPFORGE_ASSIGN(const std::int64_t extent, variant_integer(request, step.block[i]));
      threads *= extent;
      if (kernel.required_block[0] != 0 && kernel.required_block[i] != extent) {
        return wrong(
            fmt::format("its code wants {} threads in place {} of the block, its IR says {}",
                        kernel.required_block[i], i, extent));
      }
    }
    if (!step.shared_bytes.empty()) {
      OPFORGE_ASSIGN(const std::int64_t dynamic, variant_integer(request, step.shared_bytes));
      shared += dynamic;
    }
    OPFORGE_TRY(check_block_limits(request.target, threads, shared, subject));
    compiled.resources = {.registers = kernel.registers,
                          .shared_bytes = kernel.shared_bytes,
                          .local_bytes = kernel.local_bytes,
                          .code_bytes = kernel.code_bytes};
    compiled.min_driver = cubin.abi >= kCuda13Abi ? 13000 : 12000;
    return {};
  }
};

}  // namespace
}  // namespace opforge::cutedsl

namespace opforge {

Toolchain* opforge_toolchain_cutedsl() {
  static auto* toolchain = new cutedsl::CuteDslToolchain;
  return toolchain;
}

}  // namespace opforge
