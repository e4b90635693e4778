// Making outputs in the caller's own kind of tensor.
#pragma once

#include <nanobind/nanobind.h>
#include <opforge/opforge.h>

#include <string>

namespace opforge::python {

namespace nb = nanobind;

// A new row-major tensor of the library that `like` is of, on the device that `info` says. Arrays
// of libraries whose arrays cannot be written (JAX) are made as NumPy's; finished() turns them into
// the library's after the call. Throws opforge.errors.InvalidArgument when the library has no such
// dtype or cannot be asked.
nb::object allocate(PyObject* like, const opforge_output_info& info, const std::string& op,
                    const char* name);
nb::object finished(nb::object made, PyObject* like);

}  // namespace opforge::python
