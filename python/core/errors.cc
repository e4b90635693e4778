#include "errors.hpp"

namespace opforge::python {
namespace {

// Imported when the first failure needs it: `import opforge` stays quick.
nb::object from(const char* module, const char* name) {
  return nb::module_::import_(module).attr(name);
}

[[noreturn]] void throw_exception(nb::handle exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace

void raise(const Wrong& wrong) {
  throw_exception(from("opforge.errors", "wrong_argument")(wrong.op, wrong.argument, wrong.expected,
                                                           wrong.actual, wrong.advice));
}

void raise_status(opforge_status status, std::string_view op) {
  raise_explained(status, opforge_last_error(), op, "");
}

void raise_explained(opforge_status status, const std::string& message, std::string_view op,
                     const std::string& explanation) {
  throw_exception(from("opforge.errors", "from_status")(
      opforge_status_name(status), message, nb::str(op.data(), op.size()), explanation));
}

void check(opforge_status status, std::string_view op) {
  if (status != OPFORGE_OK) [[unlikely]]
    raise_status(status, op);
}

nb::object unavailable(std::string_view op, std::string_view reason) {
  return from("opforge.values", "Unavailable")(nb::str(op.data(), op.size()),
                                               nb::str(reason.data(), reason.size()));
}

}  // namespace opforge::python
