#include "operator.hpp"

#include "errors.hpp"

namespace opforge::python {
namespace {

const opforge_operator_info& find(opforge_context* context, const std::string& name) {
  const opforge_operator* found = nullptr;
  const opforge_operator_info* info = nullptr;
  check(opforge_operator_find(context, name.c_str(), &found), name);
  check(opforge_operator_describe(found, &info), name);
  return *info;
}

constexpr const char* kContractNames[] = {"DEFAULT", "FAST", "HIGH_PRECISION", "DETERMINISTIC"};
constexpr const char* kAccessNames[] = {"read", "write", "update"};
constexpr const char* kTypeNames[] = {"int", "float", "bool", "text"};

}  // namespace

OperatorObject::OperatorObject(nb::object context, const std::string& name)
    : context_(std::move(context)),
      handle_(nb::cast<ContextObject&>(context_).handle()),
      info_(&find(handle_, name)),
      face_(name, *info_) {}

nb::object OperatorObject::call(PyObject* args, PyObject* kwargs) const {
  Call call(face_, args, kwargs);
  call.take_tensors();
  if (const std::string reason = call.refused_by_caller(); !reason.empty())
    return unavailable(face_.op, reason);
  call.make_outputs(handle_);
  call.find_stream();
  opforge_status status;
  {
    const nb::gil_scoped_release released;
    status = opforge_call(handle_, face_.op.c_str(), call.list(), call.count(),
                          call.attributes().data(), call.attributes().size(), &call.options());
  }
  if (status == OPFORGE_UNAVAILABLE) return unavailable(face_.op, opforge_last_error());
  if (status != OPFORGE_OK) [[unlikely]] {
    const std::string why = opforge_last_error();  // explaining may replace it
    raise_call(status, why, face_.op, [&] {
      return text_of([&](char** json) {
        return opforge_explain_json(handle_, face_.op.c_str(), call.list(), call.count(),
                                    call.attributes().data(), call.attributes().size(),
                                    &call.options(), json);
      });
    });
  }
  return call.results();
}

nb::object OperatorObject::explain(nb::args args, nb::kwargs kwargs) const {
  Call call(face_, args.ptr(), kwargs.ptr());
  call.take_tensors();
  call.make_outputs(handle_);
  call.find_stream();
  const std::string json = text_of([&](char** text) {
    return opforge_explain_json(handle_, face_.op.c_str(), call.list(), call.count(),
                                call.attributes().data(), call.attributes().size(), &call.options(),
                                text);
  });
  return nb::module_::import_("opforge.values").attr("explanation")(json);
}

nb::object OperatorObject::prepare(nb::handle self, nb::args args, nb::kwargs kwargs) const {
  Call call(face_, args.ptr(), kwargs.ptr());
  call.take_tensors();
  if (const std::string reason = call.refused_by_caller(); !reason.empty())
    return unavailable(face_.op, reason);
  call.make_outputs(handle_);
  call.find_stream();
  opforge_plan* plan = nullptr;
  opforge_status status;
  {
    const nb::gil_scoped_release released;  // code may have to be loaded
    status = opforge_plan_create(handle_, face_.op.c_str(), call.list(), call.count(),
                                 call.attributes().data(), call.attributes().size(),
                                 &call.options(), &plan);
  }
  if (status == OPFORGE_UNAVAILABLE) return unavailable(face_.op, opforge_last_error());
  check(status, face_.op);
  return nb::cast(new PlanObject(nb::borrow(self), face_, plan, call),
                  nb::rv_policy::take_ownership);
}

nb::dict OperatorObject::describe() const {
  nb::list tensors, attributes, dtypes;
  for (std::size_t i = 0; i < info_->tensor_count; ++i) {
    const opforge_tensor_info& tensor = info_->tensors[i];
    nb::list dims;
    for (int d = 0; d < tensor.dim_count; ++d) dims.append(tensor.dims[d]);
    tensors.append(nb::make_tuple(tensor.name, nb::tuple(dims), tensor.dtype,
                                  kAccessNames[tensor.access], tensor.optional != 0));
  }
  for (std::size_t i = 0; i < info_->attribute_count; ++i) {
    const opforge_attribute_info& attribute = info_->attributes[i];
    nb::object initial = nb::none();
    if (attribute.default_text != nullptr) initial = nb::str(attribute.default_text);
    attributes.append(nb::make_tuple(attribute.name, kTypeNames[attribute.type], initial));
  }
  for (std::size_t i = 0; i < info_->dtype_count; ++i) dtypes.append(info_->dtypes[i]);
  nb::dict all;
  all["formula"] = info_->formula;
  all["tensors"] = nb::tuple(tensors);
  all["attributes"] = nb::tuple(attributes);
  all["dtypes"] = nb::tuple(dtypes);
  all["default_contract"] = kContractNames[info_->default_contract];
  all["artifact_count"] = info_->artifact_count;
  all["call"] = face_.call_text();
  return all;
}

}  // namespace opforge::python
