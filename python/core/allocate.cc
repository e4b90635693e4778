#include "allocate.hpp"

#include "argument.hpp"
#include "errors.hpp"

namespace opforge::python {
namespace {

void set_error(void*, const char* kind, const char* message) {
  const nb::object builtins = nb::module_::import_("builtins");
  const bool known = nb::hasattr(builtins, kind);
  const nb::object type = known ? builtins.attr(kind) : nb::object(builtins.attr("RuntimeError"));
  PyErr_SetString(type.ptr(), message);
}

nb::object by_exchange(const ExchangeApi& api, const opforge_output_info& info) {
  DLTensor prototype{};
  prototype.device = info.device;
  prototype.ndim = info.ndim;
  prototype.dtype = info.dtype;
  prototype.shape = const_cast<std::int64_t*>(info.shape);
  ManagedTensor* made = nullptr;
  if (api.allocate(&prototype, &made, nullptr, &set_error) != 0) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, "allocation failed");
    throw nb::python_error();
  }
  void* object = nullptr;
  if (api.object_from_managed(made, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

// The names that the array API standard gives to dtypes; "" where it has none.
const char* standard_name(DLDataType dtype) {
  const auto is = [&](int code, int bits) { return dtype.code == code && dtype.bits == bits; };
  if (is(kDLFloat, 64)) return "float64";
  if (is(kDLFloat, 32)) return "float32";
  if (is(kDLFloat, 16)) return "float16";
  if (is(kDLBfloat, 16)) return "bfloat16";
  if (is(kDLInt, 64)) return "int64";
  if (is(kDLInt, 32)) return "int32";
  if (is(kDLInt, 8)) return "int8";
  if (is(kDLUInt, 64)) return "uint64";
  if (is(kDLUInt, 32)) return "uint32";
  if (is(kDLUInt, 8)) return "uint8";
  if (is(6, 8)) return "bool_";
  return "";
}

nb::object shape_of(const opforge_output_info& info) {
  nb::list shape;
  for (int i = 0; i < info.ndim; ++i) shape.append(info.shape[i]);
  return nb::tuple(shape);
}

nb::object by_numpy(const opforge_output_info& info, const std::string& op, const char* name) {
  const char* dtype = standard_name(info.dtype);
  const nb::object numpy = nb::module_::import_("numpy");
  if (*dtype == '\0' || !nb::hasattr(numpy, dtype)) {
    raise({op, name, "a dtype that NumPy has", dtype_text(info.dtype),
           "call it with tensors of a library that has this dtype, or give out="});
  }
  return numpy.attr("empty")(shape_of(info), numpy.attr(dtype));
}

// The library of an array that follows the array API standard (CuPy, JAX, ...).
nb::object library_of(PyObject* like) {
  if (!nb::hasattr(like, "__array_namespace__")) return {};
  return nb::handle(like).attr("__array_namespace__")();
}

bool is_jax(PyObject* like) {
  const nb::object module =
      nb::getattr(reinterpret_cast<PyObject*>(Py_TYPE(like)), "__module__", nb::str(""));
  const std::string name = nb::cast<std::string>(nb::str(module));
  return name.rfind("jax", 0) == 0;
}

}  // namespace

nb::object allocate(PyObject* like, const opforge_output_info& info, const std::string& op,
                    const char* name) {
  const TypeInfo type = type_info(like);
  if (type.api != nullptr) return by_exchange(*type.api, info);
  if (type.numpy || is_jax(like)) return by_numpy(info, op, name);
  const nb::object library = library_of(like);
  const char* dtype = standard_name(info.dtype);
  if (library.is_valid() && *dtype != '\0' && nb::hasattr(library, dtype)) {
    return library.attr("empty")(shape_of(info), nb::arg("dtype") = library.attr(dtype));
  }
  raise({op, name, "an output", "none, and " + kind_of(like) + " does not say how to make one",
         "give out="});
}

nb::object finished(nb::object made, PyObject* like) {
  const TypeInfo type = type_info(like);
  if (type.api != nullptr || type.numpy || !is_jax(like)) return made;
  return library_of(like).attr("asarray")(made);
}

}  // namespace opforge::python
