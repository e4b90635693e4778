#include <fmt/format.h>

#include <charconv>

#include "artifact/convert.hpp"

namespace opforge {

Status FlatReader::status() const {
  if (error_.empty()) return {};
  return fail(Code::kCorrupt, error_, "artifact/convert");
}

void FlatReader::problem(std::string message) {
  if (error_.empty()) error_ = std::move(message);
}

bool FlatReader::charge(std::uint64_t bytes) {
  if (!ok()) return false;
  if (bytes > budget_) {
    problem("stored data unfolds to more than its size allows");
    return false;
  }
  budget_ -= bytes;
  return true;
}

std::string FlatReader::text(const flatbuffers::String* value) {
  if (value == nullptr || !charge(value->size())) return {};
  return value->str();
}

template <class T, class Items, class Make>
std::vector<T> FlatReader::list(const Items* items, Make make) {
  std::vector<T> out;
  if (items == nullptr || !charge(std::uint64_t{items->size()} * sizeof(T))) return out;
  out.reserve(items->size());
  for (const auto* item : *items) {
    out.push_back(make(item));
    if (!ok()) break;
  }
  return out;
}

std::vector<std::string> FlatReader::texts(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values) {
  return list<std::string>(values, [&](const flatbuffers::String* s) { return text(s); });
}

std::array<std::string, 3> FlatReader::triple(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values) {
  std::array<std::string, 3> out;
  if (values == nullptr) return out;
  if (values->size() > 3) {
    problem(
        fmt::format("a grid, block or cluster has {} parts, at most 3 expected", values->size()));
    return out;
  }
  for (flatbuffers::uoffset_t i = 0; i < values->size(); ++i) out[i] = text(values->Get(i));
  return out;
}

template <class To, class From>
To FlatReader::enumerator(From value, const char* what) {
  if (value < From::MIN || value > From::MAX) {
    problem(fmt::format("{} has the unknown value {}", what, static_cast<int>(value)));
    return To{};
  }
  return static_cast<To>(static_cast<std::uint8_t>(value));
}

DType FlatReader::dtype(const flatbuffers::String* name) {
  auto parsed = parse_dtype(text(name));
  if (parsed) return *parsed;
  problem(parsed.error().message);
  return DType::kF32;
}

Digest FlatReader::digest(const flatbuffers::String* hex, const char* what) {
  if (hex != nullptr) {
    if (auto parsed = Digest::from_hex(hex->string_view())) return *parsed;
  }
  problem(fmt::format("{} is not 64 hex digits", what));
  return {};
}

Value FlatReader::value(const fb::Value* value) {
  if (value == nullptr) {
    problem("a value is missing");
    return {};
  }
  const auto integer = value->integer();
  const int kinds = (integer.has_value() ? 1 : 0) + (value->real() != nullptr ? 1 : 0) +
                    (value->text() != nullptr ? 1 : 0);
  if (kinds != 1) {
    problem("a value must be exactly one of integer, real and text");
    return {};
  }
  if (integer.has_value()) return *integer;
  if (value->text() != nullptr) return text(value->text());
  const auto chars = value->real()->string_view();
  double real = 0;
  const auto [end, error] = std::from_chars(chars.data(), chars.data() + chars.size(), real);
  if (error != std::errc{} || end != chars.data() + chars.size())
    problem(fmt::format("'{}' is not a number", chars.substr(0, 40)));
  return real;
}

ValueMap FlatReader::values(
    const flatbuffers::Vector<flatbuffers::Offset<fb::NamedValue>>* values) {
  ValueMap out;
  if (values == nullptr || !charge(std::uint64_t{values->size()} * 64)) return out;
  for (const auto* item : *values) {
    if (!ok()) break;
    auto name = text(item->name());
    if (!out.emplace(name, value(item->value())).second)
      problem(fmt::format("'{}' is given twice", name));
  }
  return out;
}

DTypeCombo FlatReader::dtypes(
    const flatbuffers::Vector<flatbuffers::Offset<fb::NamedDType>>* combo) {
  DTypeCombo out;
  if (combo == nullptr || !charge(std::uint64_t{combo->size()} * 64)) return out;
  for (const auto* item : *combo) {
    if (!ok()) break;
    auto name = text(item->name());
    if (!out.emplace(name, dtype(item->dtype())).second)
      problem(fmt::format("'{}' is given twice", name));
  }
  return out;
}

TensorMapSpec FlatReader::tensor_map(const fb::TensorMap* spec) {
  TensorMapSpec out;
  out.base = text(spec->base());
  out.element = std::string(dtype_name(dtype(spec->element())));
  out.dims = texts(spec->dims());
  out.strides = texts(spec->strides());
  out.box = texts(spec->box());
  out.element_strides = texts(spec->element_strides());
  out.interleave = spec->interleave();
  out.swizzle = spec->swizzle();
  out.l2_promotion = spec->l2_promotion();
  out.oob_fill = spec->oob_fill();
  return out;
}

Binding FlatReader::binding(const fb::Binding* binding) {
  Binding out;
  out.name = text(binding->name());
  out.type = enumerator<ParamType>(binding->type(), "the type of a parameter");
  out.value = text(binding->value());
  out.fields = list<Binding::Field>(binding->fields(), [&](const fb::Field* field) {
    return Binding::Field{field->offset_bytes(),
                          enumerator<ParamType>(field->type(), "the type of a field"),
                          text(field->value())};
  });
  out.size_bytes = binding->size_bytes();
  if ((out.type == ParamType::kTensorMap) != (binding->tensor_map() != nullptr))
    problem(fmt::format(
        "parameter '{}': a tensor map belongs to the type tensor_map, and to no other", out.name));
  else if (binding->tensor_map() != nullptr)
    out.tensor_map = tensor_map(binding->tensor_map());
  return out;
}

LaunchStep FlatReader::step(const fb::LaunchStep* step) {
  LaunchStep out;
  out.kind = enumerator<StepKind>(step->kind(), "the kind of a step");
  out.entry = text(step->entry());
  out.bindings = list<Binding>(step->bindings(), [&](const fb::Binding* b) { return binding(b); });
  out.grid = triple(step->grid());
  out.block = triple(step->block());
  out.cluster = triple(step->cluster());
  out.shared_bytes = text(step->shared_bytes());
  out.cooperative = step->cooperative();
  out.programmatic = step->programmatic();
  out.memset_target = text(step->memset_target());
  out.memset_bytes = text(step->memset_bytes());
  out.memset_value = text(step->memset_value());
  return out;
}

LaunchRecord FlatReader::launch(const fb::LaunchRecord* record) {
  LaunchRecord out;
  out.steps = list<LaunchStep>(record->steps(), [&](const fb::LaunchStep* s) { return step(s); });
  out.workspace_bytes = text(record->workspace_bytes());
  out.workspace_align = record->workspace_align();
  out.guards = list<Guard>(record->guards(), [&](const fb::Guard* guard) {
    return Guard{text(guard->expr()), text(guard->reason())};
  });
  return out;
}

Variant FlatReader::variant(const fb::Variant* variant) {
  Variant out;
  out.op = text(variant->op());
  out.kernel = text(variant->kernel());
  out.backend = text(variant->backend());
  out.tier = enumerator<Tier>(variant->tier(), "a tier");
  out.target = text(variant->target());
  out.dtypes = dtypes(variant->dtypes());
  out.values = values(variant->values());
  out.baked = values(variant->baked());
  return out;
}

Precondition FlatReader::precondition(const fb::Precondition* precondition) {
  Precondition out{};
  out.kind = enumerator<PreconditionKind>(precondition->kind(), "the kind of a precondition");
  out.value = precondition->value();
  out.dtypes = list<DType>(precondition->dtypes(),
                           [&](const flatbuffers::String* name) { return dtype(name); });
  return out;
}

Artifact FlatReader::artifact(const fb::Artifact* artifact) {
  Artifact out;
  out.variant = variant(artifact->variant());
  out.launch = launch(artifact->launch());
  if (artifact->symbols() != nullptr)
    for (const auto* symbol : *artifact->symbols()) {
      if (!ok()) break;
      auto entry = text(symbol->entry());
      if (!out.symbols.emplace(entry, text(symbol->symbol())).second)
        problem(fmt::format("entry '{}' has two symbols", entry));
    }
  out.preconditions = list<Precondition>(
      artifact->preconditions(), [&](const fb::Precondition* p) { return precondition(p); });
  out.kind = enumerator<CodeKind>(artifact->kind(), "the kind of code");
  out.code_key = digest(artifact->code_key(), "a code key");
  out.code_digest = digest(artifact->code_digest(), "a code digest");
  out.proof_key = digest(artifact->proof_key(), "a proof key");
  if (const auto* toolchain = artifact->toolchain()) {
    out.toolchain.name = text(toolchain->name());
    out.toolchain.version = text(toolchain->version());
    out.toolchain.digest = digest(toolchain->digest(), "a toolchain digest");
  }
  if (const auto* r = artifact->resources())
    out.resources = {r->registers(), r->shared_bytes(), r->local_bytes(), r->code_bytes()};
  out.min_driver = artifact->min_driver();
  out.defaults = list<Artifact::Default>(artifact->defaults(), [&](const fb::Default* d) {
    Artifact::Default item;
    item.name = text(d->name());
    item.initial = text(d->initial());
    if (d->values() != nullptr && charge(std::uint64_t{d->values()->size()} * 8))
      item.values.assign(d->values()->begin(), d->values()->end());
    item.specialisation = d->specialisation();
    item.changes_bits = d->changes_bits();
    return item;
  });
  return out;
}

TensorArg FlatReader::tensor_arg(const fb::TensorArg* arg) {
  TensorArg out;
  out.name = text(arg->name());
  out.dims = texts(arg->dims());
  out.dtype = text(arg->dtype());
  out.access = enumerator<Access>(arg->access(), "the access of an argument");
  out.optional = arg->optional();
  out.may_alias = texts(arg->may_alias());
  return out;
}

AttrArg FlatReader::attr_arg(const fb::AttrArg* arg) {
  AttrArg out;
  out.name = text(arg->name());
  out.type = enumerator<AttrType>(arg->type(), "the type of an attribute");
  if (arg->default_value() != nullptr) out.default_value = value(arg->default_value());
  if (const auto min = arg->min(); min.has_value()) out.min = *min;
  if (const auto max = arg->max(); max.has_value()) out.max = *max;
  out.choices = texts(arg->choices());
  out.baked = arg->baked();
  out.baked_values =
      list<Value>(arg->baked_values(), [&](const fb::Value* baked) { return value(baked); });
  return out;
}

Signature FlatReader::signature(const fb::Signature* signature) {
  Signature out;
  out.name = text(signature->name());
  out.tensors = list<TensorArg>(signature->tensors(),
                                [&](const fb::TensorArg* arg) { return tensor_arg(arg); });
  out.attributes =
      list<AttrArg>(signature->attributes(), [&](const fb::AttrArg* arg) { return attr_arg(arg); });
  out.dtypes = list<DTypeCombo>(
      signature->dtypes(), [&](const fb::DTypeCombo* combo) { return dtypes(combo->dtypes()); });
  out.reduced_dims = texts(signature->reduced_dims());
  out.default_contract = enumerator<Tier>(signature->default_contract(), "the default contract");
  out.backend_priority = texts(signature->backend_priority());
  if (signature->deterministic_kernel() != nullptr)
    for (const auto* item : *signature->deterministic_kernel()) {
      if (!ok()) break;
      out.deterministic_kernel[text(item->backend())] = text(item->kernel());
    }
  return out;
}

TableEntry FlatReader::table_entry(const fb::TableEntry* entry) {
  TableEntry out;
  out.dtypes = dtypes(entry->dtypes());
  out.dims = values(entry->dims());
  out.attributes = values(entry->attributes());
  out.layout = text(entry->layout());
  out.device_model = text(entry->device_model());
  out.target = text(entry->target());
  out.contract = enumerator<Tier>(entry->contract(), "the contract of a table entry");
  out.code_key = digest(entry->code_key(), "the code key of a table entry");
  out.median_us = entry->median_us();
  out.baseline_us = entry->baseline_us();
  return out;
}

Attestation FlatReader::attestation(const fb::Attestation* a) {
  Attestation out;
  out.code_digest = digest(a->code_digest(), "the code digest of an attestation");
  out.proof_key = digest(a->proof_key(), "the proof key of an attestation");
  out.op = text(a->op());
  out.variant = text(a->variant());
  out.device_model = text(a->device_model());
  out.driver_version = a->driver_version();
  out.tier = enumerator<Tier>(a->tier(), "the tier of an attestation");
  out.passed = a->passed();
  out.worst_error_over_bound = a->worst_error_over_bound();
  out.cases = a->cases();
  out.suite_version = text(a->suite_version());
  out.date = text(a->date());
  out.signer = text(a->signer());
  out.signature = text(a->signature());
  return out;
}

BlobRef FlatReader::blob(const fb::Blob* blob) {
  BlobRef out;
  out.digest = digest(blob->digest(), "the digest of a blob");
  out.offset = blob->offset();
  out.stored_bytes = blob->stored_bytes();
  out.size_bytes = blob->size_bytes();
  out.zstd = blob->zstd();
  return out;
}

OperatorSection FlatReader::section(const fb::Section* section) {
  OperatorSection out;
  out.signature = signature(section->signature());
  out.formula = text(section->formula());
  out.artifacts =
      list<Artifact>(section->artifacts(), [&](const fb::Artifact* a) { return artifact(a); });
  out.table =
      list<TableEntry>(section->table(), [&](const fb::TableEntry* e) { return table_entry(e); });
  out.attestations = list<Attestation>(section->attestations(),
                                       [&](const fb::Attestation* a) { return attestation(a); });
  return out;
}

}  // namespace opforge
