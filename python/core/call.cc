#include "call.hpp"

#include <algorithm>

#include "allocate.hpp"
#include "errors.hpp"

namespace opforge::python {
namespace {

using Keyword = OperatorFace::Keyword;

constexpr std::pair<const char*, Keyword> kOptions[] = {{"out", Keyword::kOut},
                                                        {"contract", Keyword::kContract},
                                                        {"backend", Keyword::kBackend},
                                                        {"proof", Keyword::kProof},
                                                        {"stream", Keyword::kStream},
                                                        {"allow_ptx", Keyword::kAllowPtx},
                                                        {"lockstep", Keyword::kLockstep},
                                                        {"rank", Keyword::kRank},
                                                        {"world_size", Keyword::kWorldSize},
                                                        {"precondition", Keyword::kPrecondition}};

std::string text_of_object(PyObject* object) {
  return nb::cast<std::string>(nb::repr(nb::handle(object)));
}

// Good as long as the object is.
const char* utf8(PyObject* value, const OperatorFace& face, const char* name) {
  const char* text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, nullptr) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    raise({face.op, name, "a text", text_of_object(value), ""});
  }
  return text;
}

std::int64_t integer(PyObject* value, const OperatorFace& face, const char* name) {
  const nb::object index = nb::steal(PyNumber_Index(value));
  const std::int64_t number = index.is_valid() ? PyLong_AsLongLong(index.ptr()) : -1;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise({face.op, name, "an integer of 64 bits", text_of_object(value), ""});
  }
  return number;
}

// One of `names`, as its index.
template <std::size_t kCount>
int choice(PyObject* value, const char* const (&names)[kCount], const OperatorFace& face,
           const char* name) {
  const std::string_view given = utf8(value, face, name);
  std::string valid;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (given == names[i]) return static_cast<int>(i);
    valid += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  raise({face.op, name, "one of " + valid, "'" + std::string(given) + "'", ""});
}

constexpr const char* kContracts[] = {"DEFAULT", "FAST", "HIGH_PRECISION", "DETERMINISTIC"};
constexpr const char* kProofs[] = {"default", "required", "off"};

}  // namespace

OperatorFace::OperatorFace(std::string name, const opforge_operator_info& info)
    : op(std::move(name)) {
  const auto add = [&](const char* text, Keyword keyword, std::size_t index) {
    names.push_back({PyUnicode_InternFromString(text), keyword, index});
  };
  for (std::size_t i = 0; i < info.tensor_count; ++i) {
    const opforge_tensor_info& tensor = info.tensors[i];
    tensors.push_back({tensor.name, tensor.access, tensor.optional != 0});
    (tensor.access == OPFORGE_WRITE ? outputs : inputs).push_back(i);
    add(tensor.name, Keyword::kTensor, i);
  }
  for (std::size_t i = 0; i < info.attribute_count; ++i) {
    attributes.push_back({info.attributes[i].name, info.attributes[i].type});
    add(info.attributes[i].name, Keyword::kAttribute, i);
  }
  // After the operator's own names, which win.
  for (const auto& [text, keyword] : kOptions) add(text, keyword, 0);
}

const OperatorFace::Name* OperatorFace::find(PyObject* keyword) const {
  for (const Name& name : names) {
    if (name.text == keyword) return &name;
  }
  for (const Name& name : names) {  // a keyword that is not interned
    if (PyUnicode_Compare(name.text, keyword) == 0) return &name;
  }
  PyErr_Clear();
  return nullptr;
}

std::string OperatorFace::call_text() const {
  std::string text = op + "(";
  const char* comma = "";
  for (const std::size_t i : inputs) {
    text += comma + tensors[i].name + (tensors[i].optional ? "=None" : "");
    comma = ", ";
  }
  text += std::string(comma) + "*";
  for (const std::size_t i : outputs) text += ", " + tensors[i].name + "=";
  for (const Attribute& attribute : attributes) text += ", " + attribute.name + "=";
  return text + ", out=, contract=, backend=, ...)";
}

Call::Call(const OperatorFace& face, PyObject* args, PyObject* kwargs, bool rebinding)
    : face_(face) {
  OPFORGE_INIT(options_);
  const std::size_t tensors = count();
  objects_ = inline_objects_;
  list_ = inline_list_;
  arguments_ = inline_arguments_;
  if (tensors > kInline) {
    many_objects_.resize(tensors);
    many_list_.resize(tensors);
    many_arguments_ = std::make_unique<Argument[]>(tensors);
    objects_ = many_objects_.data();
    list_ = many_list_.data();
    arguments_ = many_arguments_.get();
  }
  std::fill_n(objects_, tensors, nullptr);
  std::fill_n(list_, tensors, nullptr);
  const auto given = static_cast<std::size_t>(PyTuple_Size(args));
  if (given > face.inputs.size()) {
    raise({face.op, "positional arguments", std::to_string(face.inputs.size()) + " tensors",
           std::to_string(given), "outputs and attributes are given by name: " + face.call_text()});
  }
  for (std::size_t i = 0; i < given; ++i) {
    set_tensor(face.inputs[i], PyTuple_GetItem(args, static_cast<Py_ssize_t>(i)));
  }
  if (kwargs == nullptr) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(kwargs, &at, &key, &value)) set_keyword(key, value, rebinding);
}

void Call::set_keyword(PyObject* key, PyObject* value, bool rebinding) {
  const OperatorFace::Name* name = face_.find(key);
  if (name == nullptr) {
    const std::string keyword = nb::cast<std::string>(nb::str(nb::handle(key)));
    raise({face_.op, keyword, "a name that the operator has", "an unknown one", face_.call_text()});
  }
  const bool bound = name->keyword != Keyword::kTensor && name->keyword != Keyword::kOut &&
                     name->keyword != Keyword::kStream;
  if (rebinding && bound) {
    raise({face_.op, nb::cast<std::string>(nb::str(nb::handle(key))), "tensors, out= and stream=",
           "a value that was fixed by prepare()", "prepare another plan"});
  }
  if (value == Py_None) return;  // as if it were not given
  switch (name->keyword) {
    case Keyword::kTensor:
      return set_tensor(name->index, value);
    case Keyword::kAttribute:
      return set_attribute(name->index, value);
    case Keyword::kOut:
      return set_outputs(value);
    case Keyword::kContract:
      options_.contract =
          static_cast<opforge_contract>(choice(value, kContracts, face_, "contract"));
      return;
    case Keyword::kBackend:
      options_.backend = utf8(value, face_, "backend");
      return;
    case Keyword::kProof:
      options_.proof = static_cast<opforge_proof>(choice(value, kProofs, face_, "proof"));
      return;
    case Keyword::kAllowPtx:
      options_.allow_ptx = integer(value, face_, "allow_ptx") != 0;
      return;
    case Keyword::kStream:
      options_.stream = reinterpret_cast<void*>(integer(value, face_, "stream"));
      stream_given_ = true;
      return;
    case Keyword::kLockstep:
      options_.lockstep = integer(value, face_, "lockstep") != 0;
      return;
    case Keyword::kRank:
      options_.rank = static_cast<int>(integer(value, face_, "rank"));
      return;
    case Keyword::kWorldSize:
      options_.world_size = static_cast<int>(integer(value, face_, "world_size"));
      return;
    case Keyword::kPrecondition:
      precondition_ = value;
      return;
  }
}

void Call::set_tensor(std::size_t tensor, PyObject* value) {
  if (value == Py_None) return;
  if (objects_[tensor] != nullptr) {
    raise({face_.op, face_.tensors[tensor].name, "one tensor", "two", face_.call_text()});
  }
  objects_[tensor] = value;
}

void Call::set_outputs(PyObject* value) {
  if (!PyTuple_Check(value)) {
    if (face_.outputs.empty()) {
      raise({face_.op, "out", "nothing: the operator changes its arguments in place", "a tensor",
             face_.call_text()});
    }
    return set_tensor(face_.outputs.front(), value);
  }
  const auto given = static_cast<std::size_t>(PyTuple_Size(value));
  if (given > face_.outputs.size()) {
    raise({face_.op, "out", "at most " + std::to_string(face_.outputs.size()) + " tensors",
           std::to_string(given), face_.call_text()});
  }
  for (std::size_t i = 0; i < given; ++i) {
    set_tensor(face_.outputs[i], PyTuple_GetItem(value, static_cast<Py_ssize_t>(i)));
  }
}

void Call::set_attribute(std::size_t index, PyObject* value) {
  const OperatorFace::Attribute& declared = face_.attributes[index];
  opforge_attribute attribute{declared.name.c_str(), declared.type, 0, 0, nullptr};
  switch (declared.type) {
    case OPFORGE_ATTRIBUTE_INT:
    case OPFORGE_ATTRIBUTE_BOOL:
      attribute.integer = integer(value, face_, attribute.name);
      break;
    case OPFORGE_ATTRIBUTE_FLOAT:
      attribute.number = PyFloat_AsDouble(value);
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise({face_.op, declared.name, "a number", text_of_object(value), ""});
      }
      break;
    case OPFORGE_ATTRIBUTE_TEXT:
      attribute.text = utf8(value, face_, attribute.name);
      break;
  }
  attributes_.push_back(attribute);
}

void Call::take(std::size_t tensor) {
  const OperatorFace::Tensor& declared = face_.tensors[tensor];
  arguments_[tensor].take(objects_[tensor],
                          {face_.op, declared.name.c_str(), declared.access != OPFORGE_READ});
  list_[tensor] = arguments_[tensor].tensor();
}

void Call::take_tensors() {
  for (std::size_t i = 0; i < count(); ++i) {
    if (objects_[i] != nullptr) {
      take(i);
    } else if (face_.tensors[i].access != OPFORGE_WRITE && !face_.tensors[i].optional) {
      raise({face_.op, face_.tensors[i].name, "a tensor", "nothing", face_.call_text()});
    }
  }
}

std::string Call::refused_by_caller() const {
  if (precondition_ == nullptr) return "";
  nb::list tensors;
  for (std::size_t i = 0; i < count(); ++i) {
    if (objects_[i] == nullptr)
      tensors.append(nb::none());
    else
      tensors.append(nb::handle(objects_[i]));
  }
  const nb::object answer = nb::handle(precondition_)(*nb::tuple(tensors));
  if (answer.is_none() || answer.ptr() == Py_True) return "";
  if (PyUnicode_Check(answer.ptr())) {
    const std::string reason = nb::cast<std::string>(answer);
    if (!reason.empty()) return reason;
  }
  if (answer.ptr() == Py_False || PyUnicode_Check(answer.ptr()))
    return "the caller's precondition refused without a reason";
  raise({face_.op, "precondition", "True, None, or a text that says why not",
         text_of_object(answer.ptr()), ""});
}

PyObject* Call::model() const {
  for (std::size_t i = 0; i < count(); ++i) {
    if (objects_[i] != nullptr) return objects_[i];
  }
  raise({face_.op, "tensors", "at least one", "none", face_.call_text()});
}

void Call::make_output(std::size_t tensor, const opforge_output_info& info) {
  PyObject* like = model();
  made_.push_back(allocate(like, info, face_.op, face_.tensors[tensor].name.c_str()));
  objects_[tensor] = made_.back().ptr();
  take(tensor);
}

// Everything that outputs may follow from.
std::vector<std::int64_t> Call::shape_key() const {
  std::vector<std::int64_t> key;
  key.reserve(8 * count());
  for (std::size_t i = 0; i < count(); ++i) {
    const DLTensor* tensor = list_[i];
    if (tensor == nullptr) {
      key.push_back(-1);
      continue;
    }
    key.insert(key.end(), {tensor->ndim, tensor->dtype.code, tensor->dtype.bits,
                           tensor->device.device_type, tensor->device.device_id});
    key.insert(key.end(), tensor->shape, tensor->shape + tensor->ndim);
  }
  return key;
}

void Call::make_outputs(opforge_context* context) {
  const bool missing = std::any_of(face_.outputs.begin(), face_.outputs.end(), [&](std::size_t i) {
    return objects_[i] == nullptr && !face_.tensors[i].optional;
  });
  if (!missing) return;
  std::vector<std::int64_t> key;
  if (attributes_.empty()) key = shape_key();
  std::vector<opforge_output_info> infos;
  if (!key.empty() && key == face_.inferred.key) {
    infos = face_.inferred.outputs;
  } else {
    infos.resize(count());
    check(opforge_infer_outputs(context, face_.op.c_str(), list_, count(), attributes_.data(),
                                attributes_.size(), infos.data()),
          face_.op);
    if (!key.empty()) face_.inferred = {std::move(key), infos};
  }
  for (std::size_t i = 0; i < count(); ++i) {
    if (infos[i].needed != 0) make_output(i, infos[i]);
  }
}

void Call::find_stream() {
  if (stream_given_) return;
  for (std::size_t i = 0; i < count(); ++i) {
    if (list_[i] == nullptr || list_[i]->device.device_type == kDLCPU) continue;
    const TypeInfo info = type_info(objects_[i]);
    if (info.api == nullptr || info.api->current_stream == nullptr) continue;
    const DLDevice device = list_[i]->device;
    if (info.api->current_stream(device.device_type, device.device_id, &options_.stream) != 0)
      throw nb::python_error();
    return;
  }
}

nb::object Call::results() const {
  if (made_.empty() && face_.outputs.size() == 1 && objects_[face_.outputs[0]] != nullptr)
    return nb::borrow(objects_[face_.outputs[0]]);
  nb::list results;
  const auto add = [&](std::size_t i) {
    if (objects_[i] == nullptr) return;
    for (const nb::object& made : made_) {
      if (made.ptr() == objects_[i]) return results.append(finished(made, model()));
    }
    results.append(nb::handle(objects_[i]));
  };
  for (const std::size_t i : face_.outputs) add(i);
  if (face_.outputs.empty()) {
    for (const std::size_t i : face_.inputs) {
      if (face_.tensors[i].access == OPFORGE_UPDATE) add(i);
    }
  }
  if (results.size() == 1) return results[0];
  return nb::tuple(results);
}

}  // namespace opforge::python
