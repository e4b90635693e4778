// ContextObject, declared in operator.hpp.
#include <cstring>

#include "errors.hpp"
#include "operator.hpp"

namespace opforge::python {

ContextObject::ContextObject(nb::object backend) {
  opforge_context_options options;
  OPFORGE_INIT(options);
  std::string name;
  if (!backend.is_none()) {
    name = nb::cast<std::string>(backend);
    options.backend = name.c_str();
  }
  check(opforge_context_create(&options, &handle_));
}

void ContextObject::load_pack(const std::string& path, const std::vector<std::string>& trusted_keys,
                              bool only_named_keys, bool allow_unsigned) {
  std::vector<const char*> keys;
  for (const std::string& key : trusted_keys) keys.push_back(key.c_str());
  opforge_pack_options options;
  OPFORGE_INIT(options);
  options.trusted_keys = keys.data();
  options.trusted_key_count = keys.size();
  options.only_named_keys = only_named_keys;
  options.allow_unsigned = allow_unsigned;
  opforge_status status;
  {
    const nb::gil_scoped_release released;
    status = opforge_pack_open(handle_, path.c_str(), &options);
  }
  check(status);
}

std::vector<std::string> ContextObject::operators() const {
  std::size_t count = 0;
  check(opforge_operator_count(handle_, &count));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(opforge_operator_name(handle_, i, &name));
    names.emplace_back(name);
  }
  return names;
}

void ContextObject::set_backend(const std::string& name) {
  check(opforge_set_backend(handle_, name.c_str()));
}

std::string ContextObject::choices_digest() const {
  char digest[65] = {};
  check(opforge_choices_digest(handle_, digest));
  return digest;
}

std::string ContextObject::explain_json(const std::string& op, nb::list tensors,
                                        const std::string& device, nb::dict attributes,
                                        const std::string& contract) const {
  // Made-up addresses, far apart: explaining reads no memory.
  const std::size_t count = tensors.size();
  std::vector<DLTensor> views(count);
  std::vector<const DLTensor*> list(count, nullptr);
  std::vector<std::vector<std::int64_t>> dims(2 * count);
  DLDevice place{kDLCPU, 0};
  if (device.rfind("cuda:", 0) == 0) place = {kDLCUDA, std::stoi(device.substr(5))};
  if (device.rfind("opencl:", 0) == 0) place = {kDLOpenCL, std::stoi(device.substr(7))};
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i].is_none()) continue;
    const nb::object row = tensors[i];
    for (int part = 0; part < 2; ++part) {
      for (nb::handle extent : row[2 + part])
        dims[2 * i + part].push_back(nb::cast<std::int64_t>(extent));
    }
    DLTensor& view = views[i];
    view.data = reinterpret_cast<void*>((std::uintptr_t{i} + 1) << 40);
    view.device = place;
    view.ndim = static_cast<int>(dims[2 * i].size());
    view.dtype = {nb::cast<std::uint8_t>(row[0]), nb::cast<std::uint8_t>(row[1]), 1};
    view.shape = dims[2 * i].data();
    view.strides = dims[2 * i + 1].data();
    list[i] = &view;
  }
  // As keywords of a call without tensors, so that attributes are read as the operator declares.
  nb::dict keywords;
  for (auto [key, value] : attributes) keywords[key] = value;
  if (!contract.empty()) keywords["contract"] = contract;
  const opforge_operator* found = nullptr;
  const opforge_operator_info* info = nullptr;
  check(opforge_operator_find(handle_, op.c_str(), &found), op);
  check(opforge_operator_describe(found, &info), op);
  const OperatorFace face(op, *info);
  const Call call(face, nb::tuple().ptr(), keywords.ptr());
  return text_of([&](char** json) {
    return opforge_explain_json(handle_, op.c_str(), list.data(), count, call.attributes().data(),
                                call.attributes().size(), &call.options(), json);
  });
}

}  // namespace opforge::python
