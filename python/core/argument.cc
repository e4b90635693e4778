#include "argument.hpp"

#include <cstring>
#include <vector>

#include "errors.hpp"

namespace opforge::python {
namespace {

constexpr std::size_t kKnownTypes = 32;

nb::object find_attribute(PyObject* object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object, name);
  if (found == nullptr) PyErr_Clear();
  return nb::steal(found);
}

// The class of that module, if somebody has imported it: nothing is imported here.
nb::object imported(const char* module, const char* name) {
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* found = PyDict_GetItemString(modules, module);
  return found == nullptr ? nb::object() : find_attribute(found, name);
}

bool is_instance(PyObject* object, const char* module, const char* name) {
  const nb::object type = imported(module, name);
  if (!type.is_valid()) return false;
  const int is = PyObject_IsInstance(object, type.ptr());
  if (is < 0) PyErr_Clear();
  return is > 0;
}

const ExchangeApi* exchange_api(PyTypeObject* type) {
  const nb::object capsule =
      find_attribute(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (!capsule.is_valid()) return nullptr;
  const auto* api =
      static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), kExchangeCapsule));
  if (api == nullptr) PyErr_Clear();
  // A later major version may have another layout; it says where the older table is.
  while (api != nullptr && api->version.major > 1) api = api->previous;
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

TypeInfo inspect(PyObject* object) {
  TypeInfo info;
  info.type = Py_TYPE(object);
  info.torch = is_instance(object, "torch", "Tensor");
  info.fake = info.torch && is_instance(object, "torch._subclasses.fake_tensor", "FakeTensor");
  info.numpy = is_instance(object, "numpy", "ndarray");
  info.api = exchange_api(info.type);
  if (info.api != nullptr)
    info.way = Way::kExchange;
  else if (info.numpy || PyObject_CheckBuffer(object))
    info.way = Way::kBuffer;
  else if (PyObject_HasAttrString(object, "__dlpack__"))
    info.way = Way::kCapsule;
  return info;
}

[[noreturn]] void wrong(const Role& role, std::string expected, std::string actual,
                        std::string advice) {
  raise({role.op, role.name, std::move(expected), std::move(actual), std::move(advice)});
}

[[noreturn]] void wrong_memory(PyObject* object, const Role& role) {
  wrong(role, "a tensor with memory", kind_of(object) + " without memory",
        "fake tensors and wrapper subclasses cannot be computed with: use "
        "opforge.torch.to_custom_op(op) under torch.compile and torch.export");
}

// The exception that Python has set, its first line (PyTorch adds a stack trace); cleared.
std::string pending_error() {
  try {
    throw nb::python_error();
  } catch (const nb::python_error& error) {
    const std::string text = nb::cast<std::string>(nb::str(error.value()));
    return text.substr(0, text.find('\n'));
  }
}

bool is_true(PyObject* object, PyObject* attribute) {
  PyObject* value = PyObject_GetAttr(object, attribute);
  if (value == nullptr) throw nb::python_error();
  const bool is = value == Py_True;
  Py_DECREF(value);
  return is;
}

bool calls_true(PyObject* object, PyObject* method) {
  PyObject* value = PyObject_VectorcallMethod(method, &object, 1, nullptr);
  if (value == nullptr) throw nb::python_error();
  const bool is = value == Py_True;
  Py_DECREF(value);
  return is;
}

bool gradients_are_recorded() {
  const nb::object enabled = imported("torch", "is_grad_enabled");
  return enabled.is_valid() && nb::cast<bool>(enabled());
}

bool has_elements(const DLTensor& tensor) {
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return false;
  }
  return true;
}

void check_torch(PyObject* object, const DLTensor& tensor, const Role& role) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
  if (is_true(object, requires_grad) && gradients_are_recorded()) {
    wrong(role, "a tensor without requires_grad, or gradients off", "a tensor that requires grad",
          "a plain call records no gradient: use opforge.torch.to_autograd(op), or call it under "
          "torch.no_grad(), or pass x.detach()");
  }
  if (tensor.dtype.code == kDLFloat && calls_true(object, is_neg)) {
    wrong(role, "a tensor whose memory holds its values", "a view with a pending negation",
          "pass x.resolve_neg()");
  }
}

// Of struct format characters: DLPack type code and size in bytes.
bool dtype_of_format(const char* format, Py_ssize_t item_bytes, DLDataType& dtype) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return false;
  int code = -1;
  if (std::strchr("efd", *format) != nullptr) code = kDLFloat;
  if (std::strchr("bhilq", *format) != nullptr) code = kDLInt;
  if (std::strchr("BHILQ", *format) != nullptr) code = kDLUInt;
  if (*format == '?') code = 6;  // kDLBool
  if (code < 0) return false;
  dtype = {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * item_bytes), 1};
  return true;
}

}  // namespace

TypeInfo type_info(PyObject* object) {
  static std::vector<TypeInfo> known;
  PyTypeObject* type = Py_TYPE(object);
  for (const TypeInfo& info : known) {
    if (info.type == type) return info;
  }
  const TypeInfo info = inspect(object);
  // Types that are no tensors are not kept: they may become many.
  if (info.way != Way::kNone && known.size() < kKnownTypes) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    known.push_back(info);
  }
  return info;
}

void Argument::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  Py_CLEAR(capsule_);
}

void Argument::take(PyObject* object, const Role& role) {
  release();
  const TypeInfo info = type_info(object);
  if (info.fake) wrong_memory(object, role);
  switch (info.way) {
    case Way::kExchange:
      take_exchange(object, info, role);
      break;
    case Way::kBuffer:
      take_buffer(object, role);
      break;
    case Way::kCapsule:
      take_capsule(object, role);
      break;
    case Way::kNone:
      wrong(role, "a tensor (NumPy, PyTorch, or anything with __dlpack__)", kind_of(object),
            "convert it first, e.g. numpy.asarray(x, dtype='float32')");
  }
  if (tensor_.ndim > kMaxRank) {
    wrong(role, "at most " + std::to_string(kMaxRank) + " dims", std::to_string(tensor_.ndim),
          "reshape it");
  }
  if (tensor_.data == nullptr && has_elements(tensor_)) wrong_memory(object, role);
  if (info.torch) check_torch(object, tensor_, role);
}

void Argument::take_exchange(PyObject* object, const TypeInfo& info, const Role& role) {
  if (info.api->tensor_from_object(object, &tensor_) == 0) return;
  const std::string error = pending_error();
  wrong(role, "a dense tensor", kind_of(object), error);
}

void Argument::take_buffer(PyObject* object, const Role& role) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    const std::string error = pending_error();
    // NumPy's arrays of other libraries' dtypes (ml_dtypes) come this way.
    wrong(role, "an array of a dtype that opforge has", kind_of(object), error);
  }
  has_buffer_ = true;
  if (buffer_.readonly != 0 && role.written) {
    wrong(role, "a writable array", "a read-only one",
          "pass a copy, or an array whose flags.writeable is true");
  }
  DLDataType dtype{};
  if (!dtype_of_format(buffer_.format, buffer_.itemsize, dtype)) {
    wrong(role, "elements f64 f32 f16 i8 i32 i64 u8 u32 u64 bool in native byte order",
          std::string("format '") + (buffer_.format != nullptr ? buffer_.format : "") + "'",
          "convert it with astype()");
  }
  tensor_ = {};
  tensor_.data = buffer_.buf;
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = buffer_.ndim;
  tensor_.dtype = dtype;
  set_buffer_dims(role);
}

void Argument::set_buffer_dims(const Role& role) {
  if (buffer_.ndim > kMaxRank) return;  // take() refuses it
  for (int i = 0; i < buffer_.ndim; ++i) {
    shape_[i] = buffer_.shape[i];
    if (buffer_.strides[i] % buffer_.itemsize != 0) {
      wrong(role, "strides that are multiples of the element size",
            std::to_string(buffer_.strides[i]) + " bytes",
            "pass a copy: a field of a structured array cannot be read in place");
    }
    strides_[i] = buffer_.strides[i] / buffer_.itemsize;
  }
  tensor_.shape = shape_;
  tensor_.strides = strides_;
}

void Argument::take_capsule(PyObject* object, const Role& role) {
  // The capsule stays unconsumed: its own destructor frees what it holds.
  nb::object method = find_attribute(object, "__dlpack__");
  PyObject* capsule = nullptr;
  {
    nb::dict options;
    options["max_version"] = nb::make_tuple(1, 1);
    capsule = PyObject_Call(method.ptr(), nb::tuple().ptr(), options.ptr());
  }
  if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // a producer of before DLPack 1.0
    capsule = PyObject_CallObject(method.ptr(), nullptr);
  }
  if (capsule == nullptr) wrong(role, "a dense tensor", kind_of(object), pending_error());
  capsule_ = capsule;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const auto* managed =
        static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if ((managed->flags & kReadOnlyFlag) != 0 && role.written)
      wrong(role, "a writable tensor", "a read-only one", "pass a copy");
    tensor_ = managed->tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    tensor_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
  } else {
    wrong(role, "a DLPack capsule from __dlpack__()", kind_of(capsule), "the producer is broken");
  }
}

std::string kind_of(PyObject* object) {
  const nb::object name =
      find_attribute(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__qualname__");
  const nb::object dtype = find_attribute(object, "dtype");
  std::string text = name.is_valid() ? nb::cast<std::string>(nb::str(name)) : "an object";
  if (dtype.is_valid()) text += " of " + nb::cast<std::string>(nb::str(dtype));
  return text;
}

std::string dtype_text(DLDataType dtype) {
  const std::string bits = std::to_string(dtype.bits);
  switch (static_cast<int>(dtype.code)) {
    case kDLFloat:
      return "f" + bits;
    case kDLBfloat:
      return "bf" + bits;
    case kDLInt:
      return "i" + bits;
    case kDLUInt:
      return "u" + bits;
    case 6:
      return "bool";
    case 10:
      return "f8e4m3";
    case 12:
      return "f8e5m2";
    default:
      return "DLPack type " + std::to_string(dtype.code) + " of " + bits + " bits";
  }
}

std::string device_text(DLDevice device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return "cpu:0";
    case kDLCUDA:
    case kDLCUDAManaged:
      return "cuda:" + std::to_string(device.device_id);
    case kDLOpenCL:
      return "opencl:" + std::to_string(device.device_id);
    default:
      return "DLPack device " + std::to_string(static_cast<int>(device.device_type)) + ":" +
             std::to_string(device.device_id);
  }
}

std::string shape_text(const DLTensor& tensor) {
  const auto list = [&](const std::int64_t* values) {
    std::string text = "[";
    for (int i = 0; i < tensor.ndim; ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    }
    return text + "]";
  };
  std::string text = dtype_text(tensor.dtype) + list(tensor.shape);
  if (tensor.strides != nullptr) text += " strides " + list(tensor.strides);
  return text + " on " + device_text(tensor.device);
}

}  // namespace opforge::python
