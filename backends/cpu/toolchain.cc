// C++ kernels, compiled ahead of time by the host's compiler into freestanding shared objects: the
// block function `void entry(const void* arguments, int64_t begin, int64_t end)` and nothing else.
// No libc, libm (its results depend on the CPU), libstdc++, exceptions or constructors; the runtime
// owns the threads.
#include <fmt/format.h>

#include "base/text.hpp"
#include "toolchain/codegen.hpp"
#include "toolchain/elf.hpp"
#include "toolchain/host_compiler.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "backends/cpu/toolchain";

// -maes -mpclmul: without them Highway stays at SSSE3 whatever -march says. Not at v2, whose CPUs
// need not have them (from v3 on target/cpu.cc asks for them). -ffp-contract=off: fused only where
// the source says so, so that the bits do not depend on the compiler's mood. GCC's AVX-512 headers
// warn falsely about uninitialised values.
std::vector<std::string> flags_for(const HostCompiler& compiler, const Target& target,
                                   const KernelDecl& kernel) {
  std::vector<std::string> flags{"-std=c++20",
                                 "-O3",
                                 fmt::format("-march={}", target.name),
                                 "-ffreestanding",
                                 "-fno-exceptions",
                                 "-fno-rtti",
                                 "-fno-asynchronous-unwind-tables",
                                 "-fno-stack-protector",
                                 "-fno-math-errno",
                                 "-fno-trapping-math",
                                 "-ffp-contract=off",
                                 "-fvisibility=hidden",
                                 "-ffunction-sections",
                                 "-fno-ident",
                                 "-nostdlib",
                                 "-shared",
                                 "-fPIC",
                                 "-Wall",
                                 "-Wextra",
                                 "-Wl,-z,defs",
                                 "-Wl,-z,noexecstack",
                                 "-Wl,--build-id=none",
                                 "-Wl,--gc-sections",
                                 "-Wl,-s"};
  if (target.arch >= 3) flags.insert(flags.end(), {"-maes", "-mpclmul"});
  if (compiler.is_clang()) {
    flags.insert(flags.end(), {"-fno-builtin-memcpy", "-fno-builtin-memset"});
  } else {
    flags.insert(flags.end(), {"-fno-tree-loop-distribute-patterns", "-Wno-maybe-uninitialized",
                               "-Wno-uninitialized", "-frandom-seed=opforge"});
  }
  flags.insert(flags.end(), kernel.options.begin(), kernel.options.end());
  return flags;
}

// Compilers may call these for plain copies of aggregates even in freestanding code. Unused ones
// are dropped by the linker.
constexpr std::string_view kMemoryFunctions = R"(
#define OPFORGE_HIDDEN extern "C" __attribute__((visibility("hidden"), used, noinline))
OPFORGE_HIDDEN void* memcpy(void* to, const void* from, __SIZE_TYPE__ n) noexcept {
  for (__SIZE_TYPE__ i = 0; i < n; i++) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
OPFORGE_HIDDEN void* memset(void* to, int value, __SIZE_TYPE__ n) noexcept {
  for (__SIZE_TYPE__ i = 0; i < n; i++) static_cast<char*>(to)[i] = static_cast<char>(value);
  return to;
}
)";

Result<std::string> entry_text(const Signature& signature, const LaunchStep& step,
                               const std::string& symbol) {
  OPFORGE_ASSIGN(std::vector<EntryParameter> parameters, entry_parameters(signature, step));
  std::string text = fmt::format(
      "\nextern \"C\" __attribute__((visibility(\"default\"))) void {}(const void* arguments, "
      "__INT64_TYPE__ begin, "
      "__INT64_TYPE__ end) {{\n  using namespace opforge;\n"
      "  [[maybe_unused]] const char* slots = static_cast<const char*>(arguments);\n",
      symbol);
  std::string list;
  for (std::size_t i = 0; i < parameters.size(); i++) {
    const EntryParameter& parameter = parameters[i];
    if (parameter.type == ParamType::kTensorMap) {
      return fail(
          Code::kInvalidDeclaration,
          fmt::format("entry '{}': parameter '{}' is a tensor map, which no CPU kernel takes",
                      step.entry, step.bindings[i].name),
          kWhere);
    }
    text += fmt::format("  {0} {1};\n  __builtin_memcpy(&{1}, slots + {2}, sizeof {1});\n",
                        parameter.c_type, parameter.name, 8 * i);
    list += parameter.name + ", ";
  }
  return text + fmt::format("  {}<opforge_unit::V>({}begin, end);\n}}\n", step.entry, list);
}

class CpuToolchain final : public Toolchain {
 public:
  std::string_view backend() const override { return "cpu"; }

  bool serves(const Target& target) const override {
    return target.device == DeviceKind::kCpu && target.arch >= 2 && target.arch <= 4 &&
           target.name == fmt::format("x86-64-v{}", target.arch);
  }

  Support available() override {
    auto compiler = HostCompiler::find();
    if (!compiler) return Support::no(compiler.error().message);
    const std::vector<std::string> flags{"-std=c++20"};
    if (auto headers = (*compiler)->header_digest({"hwy/highway.h"}, flags); !headers) {
      return Support::no(
          fmt::format("the Highway headers are missing (Debian: apt-get install libhwy-dev): {}",
                      headers.error().message));
    }
    return Support::yes();
  }

  Result<ToolchainStamp> stamp() override {
    OPFORGE_ASSIGN(auto compiler, HostCompiler::find());
    return compiler->stamp();
  }

  Status fingerprint(const CompileRequest& request, Fingerprint& into) override {
    OPFORGE_ASSIGN(auto compiler, HostCompiler::find());
    OPFORGE_ASSIGN(HostCompiler::Unit unit, unit_for(*compiler, request, Digest{}));
    for (const auto& [name, bytes] : unit.sources.files) into.add(name, bytes);
    into.add("unit", unit.text);
    for (const std::string& flag : unit.flags) into.add("flag", flag);
    OPFORGE_ASSIGN(Digest headers,
                   compiler->header_digest(unit.sources.system_includes, unit.flags));
    into.add("headers", headers);
    return {};
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    OPFORGE_ASSIGN(auto compiler, HostCompiler::find());
    OPFORGE_ASSIGN(HostCompiler::Unit unit, unit_for(*compiler, request, request.code_key));
    Compiled compiled;
    OPFORGE_ASSIGN(compiled.code, compiler->build(unit, compiled.log));
    std::vector<std::string> symbols;
    for (const LaunchStep* step : entry_steps(request.kernel->launch)) {
      symbols.push_back(entry_symbol(request.variant, request.code_key, step->entry));
      compiled.symbols[step->entry] = symbols.back();
    }
    OPFORGE_ASSIGN(ElfFacts facts, read_elf(compiled.code));
    if (!facts.undefined.empty() || !facts.needed.empty() || facts.constructors) {
      return fail(Code::kToolchain,
                  fmt::format("{}: CPU kernels are freestanding, but this one {}", unit.what,
                              facts.constructors
                                  ? "has static constructors"
                                  : "needs " + join(facts.undefined.empty() ? facts.needed
                                                                            : facts.undefined,
                                                    ", ")),
                  kWhere);
    }
    OPFORGE_TRY(load_test(compiled.code, symbols));
    compiled.kind = CodeKind::kElfShared;
    compiled.launch = request.kernel->launch;
    compiled.resources.code_bytes = facts.text_bytes;
    return compiled;
  }

 private:
  // The generated unit; `key` only names the entry symbols, so the fingerprint passes zero.
  static Result<HostCompiler::Unit> unit_for(const HostCompiler& compiler,
                                             const CompileRequest& request, const Digest& key) {
    const KernelDecl& kernel = *request.kernel;
    const Signature& signature = request.op->signature;
    HostCompiler::Unit unit;
    unit.what = to_string(request.variant);
    const std::vector<Path> roots{Path(request.op->folder),
                                  source_root() / "backends" / "cpu" / "include"};
    auto sources = source_set(kernel.sources, roots);
    if (!sources)
      return fail(sources.error().code, fmt::format("{}: {}", unit.what, sources.error().message),
                  kWhere);
    unit.sources = std::move(*sources);
    OPFORGE_ASSIGN(std::string variant, variant_struct(signature, request.variant));
    unit.text = fmt::format(
        "#include \"{}\"\n{}\nnamespace opforge {{}}\nnamespace opforge_unit {{\n{}}}\n",
        kernel.sources.front(), kMemoryFunctions, variant);
    for (const LaunchStep* step : entry_steps(kernel.launch)) {
      OPFORGE_ASSIGN(std::string entry,
                     entry_text(signature, *step, entry_symbol(request.variant, key, step->entry)));
      unit.text += entry;
    }
    unit.flags = flags_for(compiler, request.target, kernel);
    return unit;
  }
};

}  // namespace

Toolchain* opforge_toolchain_cpu() {
  static CpuToolchain toolchain;
  return &toolchain;
}

}  // namespace opforge
