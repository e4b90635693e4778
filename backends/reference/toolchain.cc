// References in double, compiled into shared objects of their own, so that a pack carries them as
// CPU artifacts: C++ with the standard library linked in, and libm of the machine. Never offered as
// DETERMINISTIC: libm's results depend on the CPU.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "toolchain/codegen.hpp"
#include "toolchain/elf.hpp"
#include "toolchain/host_compiler.hpp"
#include "toolchain/reference_kernel.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "backends/reference/toolchain";

std::vector<std::string> flags_for(const HostCompiler& compiler, const KernelDecl& kernel) {
  std::vector<std::string> flags{"-std=c++20",
                                 "-O2",
                                 "-march=x86-64",
                                 "-ffp-contract=off",
                                 "-fPIC",
                                 "-shared",
                                 "-Wall",
                                 "-Wextra",
                                 "-fvisibility=hidden",
                                 "-ffunction-sections",
                                 "-fdata-sections",
                                 "-fno-ident",
                                 "-static-libstdc++",
                                 "-static-libgcc",
                                 "-Wl,-z,defs",
                                 "-Wl,--version-script=opforge_exports.map",
                                 "-Wl,--gc-sections",
                                 "-Wl,--build-id=none",
                                 "-Wl,-s"};
  if (!compiler.is_clang()) flags.insert(flags.end(), {"-fno-gnu-unique", "-frandom-seed=opforge"});
  flags.insert(flags.end(), kernel.options.begin(), kernel.options.end());
  return flags;
}

// Linked into the object: their bytes are part of the key.
constexpr std::string_view kLinked[] = {"libstdc++.a", "libgcc.a",  "libgcc_eh.a", "crti.o",
                                        "crtbeginS.o", "crtendS.o", "crtn.o"};
// The only libraries that the object may need where it runs.
constexpr std::string_view kSystem[] = {"libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"};

std::string_view access_name(Access access) {
  return access == Access::kRead ? "kRead" : access == Access::kWrite ? "kWrite" : "kUpdate";
}
std::string_view kind_name(AttrType type) {
  return type == AttrType::kFloat ? "kFloat" : type == AttrType::kText ? "kText" : "kInteger";
}

std::string tables(const Signature& signature) {
  std::string text =
      "namespace {\nusing namespace opforge::reference_abi;\nconstexpr TensorRow kTensors[] = {\n";
  for (const TensorArg& tensor : signature.tensors) {
    text += fmt::format("    {{\"{}\", {}, AccessKind::{}}},\n", tensor.name, tensor.dims.size(),
                        access_name(tensor.access));
  }
  text += "    {nullptr, 0, AccessKind::kRead}};\n";
  std::string rows;
  for (const AttrArg& attribute : signature.attributes) {
    std::string choices = "nullptr";
    if (attribute.type == AttrType::kText) {
      choices = "kChoices_" + identifier(attribute.name);
      text += fmt::format("constexpr const char* {}[] = {{\"{}\"}};\n", choices,
                          join(attribute.choices, "\", \""));
    }
    rows += fmt::format("    {{\"{}\", AttributeKind::{}, {}}},\n", attribute.name,
                        kind_name(attribute.type), choices);
  }
  text += "constexpr AttributeRow kAttributes[] = {\n" + rows +
          "    {nullptr, AttributeKind::kInteger, nullptr}};\n";
  text += "constexpr const char* kSymbols[] = {";
  for (const std::string& symbol : dim_symbols(signature)) text += fmt::format("\"{}\", ", symbol);
  return text + "nullptr};\n}  // namespace\n";
}

class ReferenceToolchain final : public Toolchain {
 public:
  std::string_view backend() const override { return kReferenceBackend; }
  bool serves(const Target& target) const override { return target.name == "x86-64"; }

  Support available() override {
    const auto compiler = HostCompiler::find();
    return compiler ? Support::yes() : Support::no(compiler.error().message);
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
    const std::vector<std::string> linked(std::begin(kLinked), std::end(kLinked));
    OPFORGE_ASSIGN(Digest libraries, compiler->library_digest(linked));
    into.add("libraries", libraries);
    return {};
  }

  Result<Compiled> compile(const CompileRequest& request) override {
    OPFORGE_ASSIGN(auto compiler, HostCompiler::find());
    OPFORGE_ASSIGN(HostCompiler::Unit unit, unit_for(*compiler, request, request.code_key));
    Compiled compiled;
    OPFORGE_ASSIGN(compiled.code, compiler->build(unit, compiled.log));
    OPFORGE_ASSIGN(ElfFacts facts, read_elf(compiled.code));
    for (const std::string& library : facts.needed) {
      if (std::find(std::begin(kSystem), std::end(kSystem), library) == std::end(kSystem)) {
        return fail(Code::kToolchain,
                    fmt::format("{}: references may need {} only, but this one needs {}", unit.what,
                                fmt::join(kSystem, ", "), library),
                    kWhere);
      }
    }
    const std::string& entry = request.kernel->launch.steps.front().entry;
    const std::string symbol = entry_symbol(request.variant, request.code_key, entry);
    compiled.symbols[entry] = symbol;
    OPFORGE_TRY(load_test(compiled.code, {&symbol, 1}));
    compiled.kind = CodeKind::kElfShared;
    compiled.launch = request.kernel->launch;
    compiled.resources.code_bytes = facts.text_bytes;
    return compiled;
  }

 private:
  static Result<HostCompiler::Unit> unit_for(const HostCompiler& compiler,
                                             const CompileRequest& request, const Digest& key) {
    const KernelDecl& kernel = *request.kernel;
    HostCompiler::Unit unit;
    unit.what = to_string(request.variant);
    if (kernel.launch.steps.size() != 1) {
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{}: a reference is one step, made by reference_kernel()", unit.what),
                  kWhere);
    }
    const Path root = source_root();
    const std::vector<Path> folders{Path(request.op->folder),
                                    root / "backends" / "reference" / "include", root / "src"};
    auto sources = source_set(kernel.sources, folders);
    if (!sources)
      return fail(sources.error().code, fmt::format("{}: {}", unit.what, sources.error().message),
                  kWhere);
    const std::vector<Path> own(folders.begin() + 1, folders.end());
    const std::string wrapper = "opforge_reference.hpp";
    OPFORGE_ASSIGN(SourceSet headers, source_set({&wrapper, 1}, own));
    unit.sources = merge(std::move(*sources), std::move(headers));
    const std::string& entry = kernel.launch.steps.front().entry;
    unit.text = fmt::format(
        "#include \"{}\"\n#include \"opforge_reference.hpp\"\n{}\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void {}(const void* arguments, "
        "std::int64_t begin, std::int64_t end) {{\n"
        "  using namespace opforge;\n  if (begin != 0 || end < 1) return;\n  try {{\n"
        "    run(arguments, kTensors, kAttributes, kSymbols, &{});\n  }} catch (...) {{\n    "
        "poison(arguments, kTensors);\n  }}\n}}\n",
        kernel.sources.front(), tables(request.op->signature),
        entry_symbol(request.variant, key, entry), entry);
    // The standard library's templates are visible whatever -fvisibility says.
    unit.sources.files.emplace_back(
        "opforge_exports.map",
        fmt::format("{{ global: {}; local: *; }};\n", entry_symbol(request.variant, key, entry)));
    unit.flags = flags_for(compiler, kernel);
    return unit;
  }

  static SourceSet merge(SourceSet a, SourceSet b) {
    for (auto& file : b.files) {
      const auto same = [&](const auto& other) { return other.first == file.first; };
      if (std::none_of(a.files.begin(), a.files.end(), same)) a.files.push_back(std::move(file));
    }
    std::sort(a.files.begin(), a.files.end());
    a.system_includes.insert(b.system_includes.begin(), b.system_includes.end());
    return a;
  }
};

}  // namespace

Toolchain* opforge_toolchain_reference() {
  static ReferenceToolchain toolchain;
  return &toolchain;
}

}  // namespace opforge
