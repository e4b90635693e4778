// Contexts, packs and what is in them.
#include "capi/context.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "artifact/pack.hpp"
#include "base/text.hpp"

namespace opforge::capi {
namespace {

// A key as 64 hex digits, or the path of a file that holds one.
Result<std::string> public_key(const char* text) {
  if (text == nullptr) return fail(Code::kInvalidArgument, "a trusted key is null");
  if (Digest::from_hex(text)) return std::string(text);
  auto content = read_file(text);
  if (!content) {
    return fail(
        content.error().code,
        fmt::format("trusted key '{}' is neither 64 hex digits nor a file that can be read: {}",
                    text, content.error().message));
  }
  const std::string key(trim(*content));
  if (!Digest::from_hex(key)) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} does not hold a public key (64 hex digits)", text));
  }
  return key;
}

Result<Trust> trust_of(const opforge_pack_options& options) {
  Trust trust;
  if (options.only_named_keys == 0) {
    OPFORGE_ASSIGN(trust, process_trust(user_folders().config));
  }
  if (options.trusted_key_count != 0 && options.trusted_keys == nullptr) {
    return fail(Code::kInvalidArgument, "the list of trusted keys is null");
  }
  for (std::size_t i = 0; i < options.trusted_key_count; ++i) {
    OPFORGE_ASSIGN(std::string key, public_key(options.trusted_keys[i]));
    trust.keys.insert(std::move(key));
  }
  trust.allow_unsigned = trust.allow_unsigned || options.allow_unsigned != 0;
  return trust;
}

opforge_attribute_type type_of(AttrType type) {
  switch (type) {
    case AttrType::kInt:
      return OPFORGE_ATTRIBUTE_INT;
    case AttrType::kFloat:
      return OPFORGE_ATTRIBUTE_FLOAT;
    case AttrType::kBool:
      return OPFORGE_ATTRIBUTE_BOOL;
    case AttrType::kText:
      return OPFORGE_ATTRIBUTE_TEXT;
  }
  return OPFORGE_ATTRIBUTE_TEXT;
}

std::unique_ptr<OperatorObject> describe(std::shared_ptr<const OperatorSection> section,
                                         std::size_t artifacts) {
  auto object = std::make_unique<OperatorObject>();
  const Signature& signature = section->signature;
  object->texts.reserve(signature.attributes.size() + signature.dtypes.size());
  object->dims.reserve(signature.tensors.size());
  for (const TensorArg& tensor : signature.tensors) {
    auto& dims = object->dims.emplace_back();
    for (const std::string& dim : tensor.dims) dims.push_back(dim.c_str());
    object->tensors.push_back({tensor.name.c_str(), static_cast<std::int32_t>(dims.size()),
                               dims.data(), tensor.dtype.c_str(),
                               static_cast<opforge_access>(tensor.access), tensor.optional});
  }
  for (const AttrArg& attribute : signature.attributes) {
    const char* initial = nullptr;
    if (attribute.default_value)
      initial = object->texts.emplace_back(to_string(*attribute.default_value)).c_str();
    object->attributes.push_back({attribute.name.c_str(), type_of(attribute.type), initial});
  }
  for (const DTypeCombo& combo : signature.dtypes) {
    object->dtypes.push_back(object->texts.emplace_back(to_string(combo)).c_str());
  }
  object->info = {object->tensors.size(),
                  object->tensors.data(),
                  object->attributes.size(),
                  object->attributes.data(),
                  object->dtypes.size(),
                  object->dtypes.data(),
                  section->formula.c_str(),
                  contract_of(signature.default_contract),
                  artifacts};
  object->section = std::move(section);
  return object;
}

Result<const OperatorObject*> find_operator(ContextObject& context, const char* name) {
  const std::lock_guard lock(context.mutex);
  if (const auto found = context.operators.find(name); found != context.operators.end())
    return found->second.get();
  std::shared_ptr<const OperatorSection> first;
  std::size_t artifacts = 0;
  for (const auto& pack : context.packs) {
    auto section = pack->section(name);
    if (!section) {
      if (section.error().code == Code::kNotFound) continue;
      return fail(std::move(section.error()));
    }
    artifacts += (*section)->artifacts.size();
    if (first == nullptr) first = std::move(*section);
  }
  if (first == nullptr) {
    const auto near = nearest_names(name, context.names);
    return fail(Code::kNotFound,
                fmt::format("unknown operator '{}'; nearest: {}", name, join(near, ", ")));
  }
  auto object = describe(std::move(first), artifacts);
  object->slot = take_slot(Tag::kOperator, object.get());
  return context.operators.emplace(name, std::move(object)).first->second.get();
}

}  // namespace
}  // namespace opforge::capi

using namespace opforge;
using namespace opforge::capi;

extern "C" {

opforge_status opforge_context_create(const opforge_context_options* options,
                                      opforge_context** context) noexcept {
  return guarded([&] {
    if (context == nullptr)
      return failed(Code::kInvalidArgument, "the place for the context is null");
    *context = nullptr;
    const auto known = options_from(options);
    if (!known) return failed(known.error());
    auto object = std::make_unique<ContextObject>();
    if (known->backend != nullptr) {
      if (auto set = object->runtime.set_backend(known->backend); !set) return failed(set.error());
    }
    *context = reinterpret_cast<opforge_context*>(take_slot(Tag::kContext, object.get()));
    object.release();
    return OPFORGE_OK;
  });
}

opforge_status opforge_context_destroy(opforge_context* context) noexcept {
  return guarded([&] {
    if (context == nullptr) return OPFORGE_OK;
    std::unique_ptr<ContextObject> object(context_of(context));
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    free_slot(reinterpret_cast<Slot*>(context));
    for (const auto& [name, op] : object->operators) free_slot(op->slot);
    return OPFORGE_OK;
  });
}

opforge_status opforge_pack_open(opforge_context* context, const char* path,
                                 const opforge_pack_options* options) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (path == nullptr) return failed(Code::kInvalidArgument, "the path of the pack is null");
    const auto known = options_from(options);
    if (!known) return failed(known.error());
    const auto trust = trust_of(*known);
    if (!trust) return failed(trust.error());
    auto pack = Pack::open(path, *trust);
    if (!pack) return failed(pack.error());
    object->runtime.add_source(*pack);
    const std::lock_guard lock(object->mutex);
    object->packs.push_back(std::move(*pack));
    object->names = object->runtime.operators();
    return OPFORGE_OK;
  });
}

opforge_status opforge_set_backend(opforge_context* context, const char* name) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    const auto set = object->runtime.set_backend(name == nullptr ? "" : name);
    return set ? OPFORGE_OK : failed(set.error());
  });
}

opforge_status opforge_choices_digest(opforge_context* context, char digest[65]) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (digest == nullptr)
      return failed(Code::kInvalidArgument, "the place for the digest is null");
    const std::string hex = object->runtime.choices_digest().hex();
    std::copy(hex.begin(), hex.end(), digest);
    digest[64] = '\0';
    return OPFORGE_OK;
  });
}

opforge_status opforge_operator_count(opforge_context* context, size_t* count) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (count == nullptr) return failed(Code::kInvalidArgument, "the place for the count is null");
    const std::lock_guard lock(object->mutex);
    *count = object->names.size();
    return OPFORGE_OK;
  });
}

opforge_status opforge_operator_name(opforge_context* context, size_t index,
                                     const char** name) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (name == nullptr) return failed(Code::kInvalidArgument, "the place for the name is null");
    const std::lock_guard lock(object->mutex);
    if (index >= object->names.size()) {
      return failed(Code::kInvalidArgument,
                    fmt::format("operator {} of {}", index, object->names.size()));
    }
    *name = object->names[index].c_str();
    return OPFORGE_OK;
  });
}

opforge_status opforge_operator_find(opforge_context* context, const char* name,
                                     const opforge_operator** op) noexcept {
  return guarded([&] {
    ContextObject* object = context_of(context);
    if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
    if (name == nullptr || op == nullptr)
      return failed(Code::kInvalidArgument, "the name or the place for the operator is null");
    *op = nullptr;
    const auto found = find_operator(*object, name);
    if (!found) return failed(found.error());
    *op = reinterpret_cast<const opforge_operator*>((*found)->slot);
    return OPFORGE_OK;
  });
}

opforge_status opforge_operator_describe(const opforge_operator* op,
                                         const opforge_operator_info** info) noexcept {
  const auto* object = object_of<OperatorObject>(op, Tag::kOperator, "the operator");
  if (object == nullptr) return OPFORGE_INVALID_ARGUMENT;
  if (info == nullptr)
    return failed(Code::kInvalidArgument, "the place for the description is null");
  *info = &object->info;
  return OPFORGE_OK;
}

}  // extern "C"
