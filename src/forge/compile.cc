#include "forge/compile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "toolchain/source.hpp"
#include "verify/suite.hpp"

namespace opforge {

namespace {

constexpr const char* kWhere = "forge/compile";

struct Prepared {
  Toolchain* toolchain = nullptr;
  CompileRequest request;
};

Result<Prepared> prepare(const Operator& op, const KernelDecl& kernel, const Variant& variant) {
  Prepared prepared;
  prepared.request.op = &op;
  prepared.request.kernel = &kernel;
  prepared.request.variant = variant;
  OPFORGE_ASSIGN(prepared.request.target, parse_target(variant.target));
  prepared.toolchain = find_toolchain(kernel.backend, prepared.request.target);
  if (prepared.toolchain == nullptr) {
    return fail(Code::kUnavailable,
                fmt::format("{}: no toolchain of backend '{}' compiles for '{}'",
                            to_string(variant), kernel.backend, variant.target),
                kWhere);
  }
  if (const Support support = prepared.toolchain->available(); !support) {
    return fail(Code::kUnavailable,
                fmt::format("{}: the {} toolchain is not available here: {}", to_string(variant),
                            kernel.backend, support.reason()),
                kWhere);
  }
  OPFORGE_TRY(code_key(*prepared.toolchain, prepared.request));
  return prepared;
}

// What of an artifact follows from the declaration and does not reach the code: set anew whenever
// it is taken from the store, since the declaration may have changed without a recompile.
void describe(Artifact& artifact, const KernelDecl& kernel, const Digest& proof) {
  artifact.preconditions = kernel.preconditions;
  artifact.proof_key = proof;
  artifact.defaults.clear();
  for (const Tunable& tunable : kernel.tunables) {
    artifact.defaults.push_back({tunable.name, tunable.initial, tunable.values,
                                 tunable.specialisation, tunable.changes_bits});
  }
}

Result<Store::Loaded> compile_now(Prepared& prepared) {
  OPFORGE_ASSIGN(ToolchainStamp stamp, prepared.toolchain->stamp());
  OPFORGE_ASSIGN(Compiled compiled, prepared.toolchain->compile(prepared.request));
  Store::Loaded loaded;
  Artifact& artifact = loaded.artifact;
  artifact.variant = prepared.request.variant;
  artifact.launch = std::move(compiled.launch);
  artifact.symbols = std::move(compiled.symbols);
  artifact.kind = compiled.kind;
  artifact.code_key = prepared.request.code_key;
  artifact.code_digest = sha256(std::string_view(compiled.code));
  artifact.toolchain = std::move(stamp);
  artifact.resources = compiled.resources;
  artifact.resources.code_bytes = std::max<std::int64_t>(
      artifact.resources.code_bytes, static_cast<std::int64_t>(compiled.code.size()));
  artifact.min_driver = compiled.min_driver;
  loaded.code = std::move(compiled.code);
  return loaded;
}

void add_dims(Fingerprint& key, const TensorArg& tensor) {
  key.add("tensor", tensor.name).add("dtype", tensor.dtype);
  key.add("access", static_cast<std::int64_t>(tensor.access));
  key.add("optional", static_cast<std::int64_t>(tensor.optional));
  key.add("dims", static_cast<std::int64_t>(tensor.dims.size()));
  for (const std::string& dim : tensor.dims) key.add("dim", dim);
  key.add("alias", static_cast<std::int64_t>(tensor.may_alias.size()));
  for (const std::string& name : tensor.may_alias) key.add("alias", name);
}

void add_attribute(Fingerprint& key, const AttrArg& attribute) {
  key.add("attribute", attribute.name).add("type", static_cast<std::int64_t>(attribute.type));
  key.add("default", attribute.default_value ? to_string(*attribute.default_value) : "");
  for (const std::string& choice : attribute.choices) key.add("choice", choice);
}

void add_bound(Fingerprint& key, const Bound& bound) { key.add("a", bound.a).add("b", bound.b); }

// The reference's own files: those of the operator's folder. What the folder includes from the
// project is covered by the suite's version.
Status add_reference(Fingerprint& key, const Operator& op) {
  const std::vector<Path> roots{Path(op.folder), source_root() / "src"};
  OPFORGE_ASSIGN(SourceSet sources, source_set({&op.reference_source, 1}, roots));
  for (const auto& [name, bytes] : sources.files) {
    std::error_code error;
    if (std::filesystem::is_regular_file(Path(op.folder) / name, error)) key.add(name, bytes);
  }
  return {};
}

}  // namespace

Result<const KernelDecl*> kernel_of(const Operator& op, const Variant& variant) {
  for (const KernelDecl& kernel : op.kernels) {
    if (kernel.id == variant.kernel) return &kernel;
  }
  return fail(Code::kNotFound,
              fmt::format("{} has no kernel '{}'", op.signature.name, variant.kernel), kWhere);
}

Result<Digest> variant_key(const Operator& op, const KernelDecl& kernel, const Variant& variant) {
  OPFORGE_ASSIGN(Prepared prepared, prepare(op, kernel, variant));
  return prepared.request.code_key;
}

Result<Store::Loaded> obtain(const Operator& op, const KernelDecl& kernel, const Variant& variant,
                             Store& store, bool* compiled) {
  if (compiled != nullptr) *compiled = false;
  OPFORGE_ASSIGN(Prepared prepared, prepare(op, kernel, variant));
  OPFORGE_ASSIGN(Digest proof, proof_key(op));
  const auto build = [&]() -> Result<Store::Loaded> {
    auto loaded = compile_now(prepared);
    if (loaded) describe(loaded->artifact, kernel, proof);
    return loaded;
  };
  OPFORGE_ASSIGN(
      Store::Loaded loaded,
      store.find_or_build(variant.target, variant.op, prepared.request.code_key, build, compiled));
  describe(loaded.artifact, kernel, proof);
  return loaded;
}

Result<Digest> proof_key(const Operator& op) {
  const Signature& signature = op.signature;
  Fingerprint key;
  key.add("suite", kSuiteVersion).add("op", signature.name);
  for (const TensorArg& tensor : signature.tensors) add_dims(key, tensor);
  for (const AttrArg& attribute : signature.attributes) add_attribute(key, attribute);
  for (const DTypeCombo& combo : signature.dtypes) key.add("dtypes", to_string(combo));
  for (const std::string& dim : signature.reduced_dims) key.add("reduced", dim);
  add_bound(key, op.tolerances.fast);
  add_bound(key, op.tolerances.high_precision);
  for (const auto& [name, fill] : op.fills) key.add(name, static_cast<std::int64_t>(fill));
  OPFORGE_TRY(add_reference(key, op));
  return key.finish();
}

}  // namespace opforge
