// From statuses of the C functions to exceptions of opforge.errors, and from C++ to Python errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <opforge/opforge.h>

#include <string>
#include <string_view>

namespace opforge::python {

namespace nb = nanobind;

// What is wrong with one argument of a call: the fields of opforge.errors.InvalidArgument.
struct Wrong {
  std::string op, argument, expected, actual, advice;
};

// Each throws nb::python_error with the Python exception set.
[[noreturn]] void raise(const Wrong& wrong);
[[noreturn]] void raise_status(opforge_status status, std::string_view op);
void check(opforge_status status, std::string_view op = {});  // throws unless it is OPFORGE_OK
// Of a call: `explain` gives the JSON text of opforge_explain_json, which becomes the exception's
// explanation. What explaining itself fails with is dropped.
template <class Explain>
[[noreturn]] void raise_call(opforge_status status, const std::string& message, std::string_view op,
                             Explain&& explain);
[[noreturn]] void raise_explained(opforge_status status, const std::string& message,
                                  std::string_view op, const std::string& explanation);

// opforge.Unavailable(operator, reason): a value, not an exception.
nb::object unavailable(std::string_view op, std::string_view reason);

// The text that a C function gives.
template <class Function>
std::string text_of(Function&& function) {
  char* given = nullptr;
  check(function(&given));
  std::string copy(given);
  opforge_text_free(given);
  return copy;
}

template <class Explain>
[[noreturn]] void raise_call(opforge_status status, const std::string& message, std::string_view op,
                             Explain&& explain) {
  std::string explanation;
  try {
    explanation = explain();
  } catch (const nb::python_error&) {
  }
  raise_explained(status, message, op, explanation);
}

// Runs the body of a slot: what is thrown becomes the Python error, and null is returned.
template <class Body>
PyObject* guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace opforge::python
