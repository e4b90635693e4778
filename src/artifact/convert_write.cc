#include <fmt/format.h>

#include <algorithm>

#include "artifact/convert.hpp"

namespace opforge {

// Enumerators are converted by number: both lists must agree.
#define OPFORGE_SAME(a, b) static_assert(static_cast<int>(a) == static_cast<int>(b))
OPFORGE_SAME(fb::ParamType::ptr, ParamType::kPtr);
OPFORGE_SAME(fb::ParamType::i8, ParamType::kI8);
OPFORGE_SAME(fb::ParamType::i32, ParamType::kI32);
OPFORGE_SAME(fb::ParamType::i64, ParamType::kI64);
OPFORGE_SAME(fb::ParamType::u32, ParamType::kU32);
OPFORGE_SAME(fb::ParamType::u64, ParamType::kU64);
OPFORGE_SAME(fb::ParamType::f16, ParamType::kF16);
OPFORGE_SAME(fb::ParamType::bf16, ParamType::kBF16);
OPFORGE_SAME(fb::ParamType::f32, ParamType::kF32);
OPFORGE_SAME(fb::ParamType::f64, ParamType::kF64);
OPFORGE_SAME(fb::ParamType::bytes, ParamType::kBytes);
OPFORGE_SAME(fb::ParamType::tensor_map, ParamType::kTensorMap);
OPFORGE_SAME(fb::StepKind::kernel, StepKind::kKernel);
OPFORGE_SAME(fb::StepKind::memset, StepKind::kMemset);
OPFORGE_SAME(fb::Tier::FAST, Tier::kFast);
OPFORGE_SAME(fb::Tier::HIGH_PRECISION, Tier::kHighPrecision);
OPFORGE_SAME(fb::Tier::DETERMINISTIC, Tier::kDeterministic);
OPFORGE_SAME(fb::CodeKind::elf_shared, CodeKind::kElfShared);
OPFORGE_SAME(fb::CodeKind::cubin, CodeKind::kCubin);
OPFORGE_SAME(fb::CodeKind::ptx, CodeKind::kPtx);
OPFORGE_SAME(fb::CodeKind::opencl_binary, CodeKind::kOpenClBinary);
OPFORGE_SAME(fb::CodeKind::hsaco, CodeKind::kHsaco);
OPFORGE_SAME(fb::Access::read, Access::kRead);
OPFORGE_SAME(fb::Access::write, Access::kWrite);
OPFORGE_SAME(fb::Access::update, Access::kUpdate);
OPFORGE_SAME(fb::AttrType::integer, AttrType::kInt);
OPFORGE_SAME(fb::AttrType::real, AttrType::kFloat);
OPFORGE_SAME(fb::AttrType::boolean, AttrType::kBool);
OPFORGE_SAME(fb::AttrType::text, AttrType::kText);
OPFORGE_SAME(fb::PreconditionKind::lockstep_ranks, PreconditionKind::kLockstepRanks);
OPFORGE_SAME(fb::PreconditionKind::not_capturing, PreconditionKind::kNotCapturing);
OPFORGE_SAME(fb::PreconditionKind::alignment, PreconditionKind::kAlignment);
OPFORGE_SAME(fb::PreconditionKind::dtype_in, PreconditionKind::kDTypeIn);
OPFORGE_SAME(fb::PreconditionKind::min_leading_dim, PreconditionKind::kMinLeadingDim);
#undef OPFORGE_SAME

namespace {
template <class To, class From>
To number(From value) {
  return static_cast<To>(static_cast<std::uint8_t>(value));
}
}  // namespace

FlatWriter::Offset<flatbuffers::String> FlatWriter::text(std::string_view value) {
  if (value.empty()) return 0;
  return builder_.CreateSharedString(value.data(), value.size());
}

// Empty lists are left out; elements of a list of strings must be present, so that empty ones are
// written.
FlatWriter::Vector<FlatWriter::Offset<flatbuffers::String>> FlatWriter::texts(
    std::span<const std::string> values) {
  if (values.empty()) return 0;
  std::vector<Offset<flatbuffers::String>> offsets;
  offsets.reserve(values.size());
  for (const auto& v : values) offsets.push_back(builder_.CreateSharedString(v.data(), v.size()));
  return builder_.CreateVector(offsets);
}

FlatWriter::Vector<FlatWriter::Offset<flatbuffers::String>> FlatWriter::triple(
    std::span<const std::string, 3> values) {
  if (values[0].empty() && values[1].empty() && values[2].empty()) return 0;
  return texts(values);
}

template <class T, class Items, class Make>
FlatWriter::Vector<FlatWriter::Offset<T>> FlatWriter::list(const Items& items, Make make) {
  if (items.empty()) return 0;
  std::vector<Offset<T>> offsets;
  offsets.reserve(items.size());
  for (const auto& item : items) offsets.push_back(make(item));
  return builder_.CreateVector(offsets);
}

// Writes what `make` makes once for all equal contents: its bytes in a buffer of its own are the
// key.
template <class Make>
auto FlatWriter::shared(char kind, Make make) -> decltype(make(*this)) {
  flatbuffers::FlatBufferBuilder scratch;
  FlatWriter alone(scratch);
  const auto made = make(alone);
  if (made.IsNull()) return made;
  scratch.Finish(made);
  std::string key(1, kind);
  key.append(reinterpret_cast<const char*>(scratch.GetBufferPointer()), scratch.GetSize());
  if (auto found = shared_.find(key); found != shared_.end()) return found->second;
  const auto offset = make(*this);
  shared_.emplace(std::move(key), offset.o);
  return offset;
}

FlatWriter::Offset<fb::Value> FlatWriter::value(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return fb::CreateValue(builder_, *integer);
  if (const auto* real = std::get_if<double>(&value))
    return fb::CreateValue(builder_, flatbuffers::nullopt, text(fmt::format("{}", *real)));
  const auto& chars = std::get<std::string>(value);
  return fb::CreateValue(builder_, flatbuffers::nullopt, 0,
                         builder_.CreateSharedString(chars.data(), chars.size()));
}

FlatWriter::Vector<FlatWriter::Offset<fb::NamedValue>> FlatWriter::values(const ValueMap& values) {
  return list<fb::NamedValue>(values, [&](const auto& item) {
    const auto stored = value(item.second);
    return fb::CreateNamedValue(builder_, builder_.CreateSharedString(item.first), stored);
  });
}

FlatWriter::Vector<FlatWriter::Offset<fb::NamedDType>> FlatWriter::dtypes(const DTypeCombo& combo) {
  return list<fb::NamedDType>(combo, [&](const auto& item) {
    const auto name = builder_.CreateSharedString(item.first);
    return fb::CreateNamedDType(builder_, name, text(dtype_name(item.second)));
  });
}

FlatWriter::Offset<fb::TensorMap> FlatWriter::tensor_map(const TensorMapSpec& spec) {
  const auto base = builder_.CreateSharedString(spec.base);
  const auto element = builder_.CreateSharedString(spec.element);
  const auto dims = texts(spec.dims), strides = texts(spec.strides), box = texts(spec.box);
  const auto element_strides = texts(spec.element_strides);
  return fb::CreateTensorMap(builder_, base, element, dims, strides, box, element_strides,
                             spec.interleave, spec.swizzle, spec.l2_promotion, spec.oob_fill);
}

FlatWriter::Offset<fb::Binding> FlatWriter::binding(const Binding& binding) {
  const auto name = text(binding.name), expr = text(binding.value);
  const auto fields = list<fb::Field>(binding.fields, [&](const Binding::Field& field) {
    const auto value = text(field.value);
    return fb::CreateField(builder_, field.offset_bytes, number<fb::ParamType>(field.type), value);
  });
  Offset<fb::TensorMap> map = 0;
  if (binding.type == ParamType::kTensorMap) map = tensor_map(binding.tensor_map);
  return fb::CreateBinding(builder_, name, number<fb::ParamType>(binding.type), expr, fields,
                           binding.size_bytes, map);
}

FlatWriter::Offset<fb::LaunchStep> FlatWriter::step(const LaunchStep& step) {
  const auto entry = text(step.entry);
  const auto bindings =
      list<fb::Binding>(step.bindings, [&](const Binding& b) { return binding(b); });
  const auto grid = triple(step.grid), block = triple(step.block), cluster = triple(step.cluster);
  const auto shared_bytes = text(step.shared_bytes), target = text(step.memset_target);
  const auto memset_bytes = text(step.memset_bytes), memset_value = text(step.memset_value);
  return fb::CreateLaunchStep(builder_, number<fb::StepKind>(step.kind), entry, bindings, grid,
                              block, cluster, shared_bytes, step.cooperative, step.programmatic,
                              target, memset_bytes, memset_value);
}

FlatWriter::Offset<fb::LaunchRecord> FlatWriter::launch(const LaunchRecord& record) {
  const auto steps =
      list<fb::LaunchStep>(record.steps, [&](const LaunchStep& s) { return step(s); });
  const auto workspace = text(record.workspace_bytes);
  const auto guards = list<fb::Guard>(record.guards, [&](const Guard& guard) {
    const auto expr = builder_.CreateSharedString(guard.expr);
    return fb::CreateGuard(builder_, expr, text(guard.reason));
  });
  return fb::CreateLaunchRecord(builder_, steps, workspace, record.workspace_align, guards);
}

FlatWriter::Offset<fb::Variant> FlatWriter::variant(const Variant& variant) {
  const auto op = builder_.CreateSharedString(variant.op);
  const auto kernel = builder_.CreateSharedString(variant.kernel);
  const auto backend = builder_.CreateSharedString(variant.backend);
  const auto target = builder_.CreateSharedString(variant.target);
  const auto combo = shared('d', [&](FlatWriter& w) { return w.dtypes(variant.dtypes); });
  const auto fixed = values(variant.values);
  const auto baked = shared('b', [&](FlatWriter& w) { return w.values(variant.baked); });
  return fb::CreateVariant(builder_, op, kernel, backend, number<fb::Tier>(variant.tier), target,
                           combo, fixed, baked);
}

FlatWriter::Offset<fb::Artifact> FlatWriter::artifact(const Artifact& artifact) {
  const auto which = variant(artifact.variant);
  const auto record = shared('l', [&](FlatWriter& w) { return w.launch(artifact.launch); });
  const auto symbols = list<fb::Symbol>(artifact.symbols, [&](const auto& item) {
    const auto entry = builder_.CreateSharedString(item.first);
    return fb::CreateSymbol(builder_, entry, builder_.CreateSharedString(item.second));
  });
  const auto preconditions = shared('p', [&](FlatWriter& w) {
    return w.list<fb::Precondition>(artifact.preconditions, [&](const Precondition& p) {
      std::vector<std::string> names;
      for (DType dtype : p.dtypes) names.emplace_back(dtype_name(dtype));
      const auto stored = w.texts(names);
      return fb::CreatePrecondition(w.builder_, number<fb::PreconditionKind>(p.kind), p.value,
                                    stored);
    });
  });
  const auto code_key = text(artifact.code_key.hex()),
             code_digest = text(artifact.code_digest.hex());
  const auto proof_key = text(artifact.proof_key.hex());
  const auto toolchain = shared('t', [&](FlatWriter& w) {
    const auto name = w.text(artifact.toolchain.name), version = w.text(artifact.toolchain.version);
    return fb::CreateToolchain(w.builder_, name, version, w.text(artifact.toolchain.digest.hex()));
  });
  const auto& r = artifact.resources;
  const auto resources =
      fb::CreateResources(builder_, r.registers, r.shared_bytes, r.local_bytes, r.code_bytes);
  const auto defaults = shared('f', [&](FlatWriter& w) {
    return w.list<fb::Default>(artifact.defaults, [&](const Artifact::Default& d) {
      const auto name = w.builder_.CreateSharedString(d.name);
      const auto initial = w.text(d.initial);
      const auto listed = w.builder_.CreateVector(d.values);
      return fb::CreateDefault(w.builder_, name, initial, listed, d.specialisation, d.changes_bits);
    });
  });
  return fb::CreateArtifact(builder_, which, record, symbols, preconditions,
                            number<fb::CodeKind>(artifact.kind), code_key, code_digest, proof_key,
                            toolchain, resources, artifact.min_driver, defaults);
}

FlatWriter::Offset<fb::TensorArg> FlatWriter::tensor_arg(const TensorArg& arg) {
  const auto name = builder_.CreateSharedString(arg.name);
  const auto dims = texts(arg.dims);
  const auto dtype = builder_.CreateSharedString(arg.dtype);
  const auto alias = texts(arg.may_alias);
  return fb::CreateTensorArg(builder_, name, dims, dtype, number<fb::Access>(arg.access),
                             arg.optional, alias);
}

FlatWriter::Offset<fb::AttrArg> FlatWriter::attr_arg(const AttrArg& arg) {
  const auto name = builder_.CreateSharedString(arg.name);
  Offset<fb::Value> default_value = 0;
  if (arg.default_value) default_value = value(*arg.default_value);
  const auto choices = texts(arg.choices);
  const auto baked = list<fb::Value>(arg.baked_values,
                                     [&](const Value& baked_value) { return value(baked_value); });
  fb::AttrArgBuilder out(builder_);
  out.add_name(name);
  out.add_type(number<fb::AttrType>(arg.type));
  out.add_default_value(default_value);
  if (arg.min) out.add_min(*arg.min);
  if (arg.max) out.add_max(*arg.max);
  out.add_choices(choices);
  out.add_baked(arg.baked);
  out.add_baked_values(baked);
  return out.Finish();
}

FlatWriter::Offset<fb::Signature> FlatWriter::signature(const Signature& signature) {
  const auto name = builder_.CreateSharedString(signature.name);
  const auto tensors =
      list<fb::TensorArg>(signature.tensors, [&](const TensorArg& t) { return tensor_arg(t); });
  const auto attributes =
      list<fb::AttrArg>(signature.attributes, [&](const AttrArg& a) { return attr_arg(a); });
  const auto combos = list<fb::DTypeCombo>(signature.dtypes, [&](const DTypeCombo& combo) {
    return fb::CreateDTypeCombo(builder_, dtypes(combo));
  });
  const auto reduced = texts(signature.reduced_dims), priority = texts(signature.backend_priority);
  const auto fixed = list<fb::BackendKernel>(signature.deterministic_kernel, [&](const auto& item) {
    const auto backend = builder_.CreateSharedString(item.first);
    return fb::CreateBackendKernel(builder_, backend, builder_.CreateSharedString(item.second));
  });
  return fb::CreateSignature(builder_, name, tensors, attributes, combos, reduced,
                             number<fb::Tier>(signature.default_contract), priority, fixed);
}

FlatWriter::Offset<fb::TableEntry> FlatWriter::table_entry(const TableEntry& entry) {
  const auto combo = shared('d', [&](FlatWriter& w) { return w.dtypes(entry.dtypes); });
  const auto dims = shared('b', [&](FlatWriter& w) { return w.values(entry.dims); });
  const auto attributes = shared('b', [&](FlatWriter& w) { return w.values(entry.attributes); });
  const auto layout = text(entry.layout), model = text(entry.device_model);
  const auto target = text(entry.target), key = text(entry.code_key.hex());
  return fb::CreateTableEntry(builder_, combo, dims, attributes, layout, model, target,
                              number<fb::Tier>(entry.contract), key, entry.median_us,
                              entry.baseline_us);
}

FlatWriter::Offset<fb::Attestation> FlatWriter::attestation(const Attestation& a) {
  const auto code = text(a.code_digest.hex()), proof = text(a.proof_key.hex());
  const auto op = text(a.op), variant = text(a.variant), model = text(a.device_model);
  const auto suite = text(a.suite_version), date = text(a.date);
  const auto signer = text(a.signer), signature = text(a.signature);
  return fb::CreateAttestation(builder_, code, proof, op, variant, model, a.driver_version,
                               number<fb::Tier>(a.tier), a.passed, a.worst_error_over_bound,
                               a.cases, suite, date, signer, signature);
}

FlatWriter::Offset<fb::Section> FlatWriter::section(const OperatorSection& section,
                                                    std::span<const BlobRef> blobs) {
  const auto declared = signature(section.signature);
  const auto formula = text(section.formula);
  const auto artifacts =
      list<fb::Artifact>(section.artifacts, [&](const Artifact& a) { return artifact(a); });
  const auto table =
      list<fb::TableEntry>(section.table, [&](const TableEntry& e) { return table_entry(e); });
  const auto attestations = list<fb::Attestation>(
      section.attestations, [&](const Attestation& a) { return attestation(a); });
  const auto refs = list<fb::Blob>(blobs, [&](const BlobRef& blob) {
    return fb::CreateBlob(builder_, text(blob.digest.hex()), blob.offset, blob.stored_bytes,
                          blob.size_bytes, blob.zstd);
  });
  return fb::CreateSection(builder_, declared, formula, artifacts, table, attestations, refs);
}

std::string artifact_bytes(const Artifact& artifact) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(FlatWriter(builder).artifact(artifact));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

bool same_artifact(const Artifact& a, const Artifact& b) {
  return artifact_bytes(a) == artifact_bytes(b);
}

bool same_signature(const Signature& a, const Signature& b) {
  flatbuffers::FlatBufferBuilder first, second;
  first.Finish(FlatWriter(first).signature(a));
  second.Finish(FlatWriter(second).signature(b));
  return first.GetSize() == second.GetSize() &&
         std::equal(first.GetBufferPointer(), first.GetBufferPointer() + first.GetSize(),
                    second.GetBufferPointer());
}

}  // namespace opforge
