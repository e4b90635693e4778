// Triton kernels to cubins and code objects, compiled ahead of time by a worker process.
#include <fmt/format.h>

#include "artifact/cubin.hpp"
#include "backends/triton/record.hpp"
#include "toolchain/dsl_toolchain.hpp"

namespace opforge::triton {
namespace {

constexpr const char* kWhere = "backends/triton/toolchain";
constexpr int kLeastArch = 80;
constexpr int kCuda13Abi = 8;  // of cubins made by toolkits from 13.0 on

DslInfo triton_info() {
  DslInfo info;
  info.backend = info.package = "triton";
  info.minors = {"3.6", "3.9"};
  // Nothing is kept between compiles: Triton's own cache key misses constants that are read through
  // a module's attribute. Line information would put paths into the code.
  info.environment = {{"TRITON_ALWAYS_COMPILE", "1"},
                      {"TRITON_CACHE_DIR", "{folder}/cache"},
                      {"TRITON_HOME", "{folder}"},
                      {"TRITON_DISABLE_LINE_INFO", "1"}};
  return info;
}

class TritonToolchain : public DslToolchain {
 public:
  TritonToolchain() : DslToolchain(triton_info()) {}

  bool serves(const Target& target) const override {
    if (target.device == DeviceKind::kHip) return true;
    return target.device == DeviceKind::kCuda && !target.ptx && target.arch >= kLeastArch;
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    OPFORGE_ASSIGN(nlohmann::json job, question(request));
    OPFORGE_ASSIGN(const DslAnswer answer, ask(request, std::move(job)));
    Compiled compiled;
    OPFORGE_ASSIGN(compiled.launch, launch_record(request, answer.values));
    const LaunchStep& step = kernel_step(compiled.launch);
    const std::string symbol = answer.values.value("name", "");
    compiled.symbols[step.entry] = symbol;
    const std::int64_t threads =
        answer.values.value("num_warps", 0) * answer.values.value("warp_size", 32);
    const std::int64_t shared = answer.values.value("shared", std::int64_t{0});
    const std::string subject = dsl_subject(request);
    OPFORGE_TRY(check_block_limits(request.target, threads, shared, subject));
    const bool hip = request.target.device == DeviceKind::kHip;
    const auto code = answer.blobs.find(hip ? "hsaco" : "cubin");
    if (code == answer.blobs.end() || code->second.empty())
      return fail(Code::kToolchain, fmt::format("{}: the compiler gave no code", subject), kWhere);
    compiled.code = code->second;
    if (hip) {
      compiled.kind = CodeKind::kHsaco;
      return compiled;
    }
    compiled.kind = CodeKind::kCubin;
    if (const auto ptx = answer.blobs.find("ptx");
        ptx != answer.blobs.end() && request.variant.tier == Tier::kDeterministic) {
      OPFORGE_TRY(check_no_float_atomics(ptx->second));
    }
    OPFORGE_TRY(check_image(request, compiled, step, symbol, threads));
    return compiled;
  }

 protected:
  // An option that nobody knows, or a promise about a parameter that is not there, is found without
  // a compile.
  Status inputs(const CompileRequest& request, Fingerprint& into) override {
    OPFORGE_ASSIGN(const nlohmann::json job, question(request));
    into.add("question", job.dump());
    return {};
  }

 private:
  static const LaunchStep& kernel_step(const LaunchRecord& record) {
    const LaunchStep* found = nullptr;
    for (const LaunchStep& step : record.steps)
      if (step.kind == StepKind::kKernel) found = &step;
    return *found;
  }

  // The cubin's own words against the record.
  static Status check_image(const CompileRequest& request, Compiled& compiled,
                            const LaunchStep& step, const std::string& symbol,
                            std::int64_t threads) {
    const std::string subject = dsl_subject(request);
    const auto wrong = [&](std::string message) {
      return fail(Code::kToolchain, fmt::format("{}: {}", subject, message), kWhere);
    };
    OPFORGE_ASSIGN(const Cubin cubin, read_cubin(compiled.code));
    if (cubin.arch != request.target.arch)
      return wrong(fmt::format("asked for {}, Triton made sm_{}", request.target.name, cubin.arch));
    const CubinKernel* kernel = cubin.find(symbol);
    if (kernel == nullptr) return wrong(fmt::format("its code has no kernel '{}'", symbol));
    OPFORGE_TRY(check_parameters(*kernel, parameter_sizes(step), subject));
    if (kernel->required_block[0] != threads || kernel->required_block[1] != 1 ||
        kernel->required_block[2] != 1) {
      return wrong(fmt::format("its code wants blocks of {} threads, its metadata says {}",
                               kernel->required_block[0], threads));
    }
    compiled.resources = {.registers = kernel->registers,
                          .shared_bytes = kernel->shared_bytes,
                          .local_bytes = kernel->local_bytes,
                          .code_bytes = kernel->code_bytes};
    compiled.min_driver = cubin.abi >= kCuda13Abi ? 13000 : 12000;
    return {};
  }
};

}  // namespace
}  // namespace opforge::triton

namespace opforge {

Toolchain* opforge_toolchain_triton() {
  // Never destroyed: threads may still compile when the process ends; its workers end by
  // themselves then.
  static auto* toolchain = new triton::TritonToolchain;
  return toolchain;
}

}  // namespace opforge
