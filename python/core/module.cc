// The extension module opforge._core: the C functions of libopforge for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "errors.hpp"
#include "operator.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace opforge::python {
namespace {

PyObject* call_operator(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded(
      [&] { return nb::inst_ptr<OperatorObject>(self)->call(args, kwargs).release().ptr(); });
}

PyObject* call_plan(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded(
      [&] { return nb::inst_ptr<PlanObject>(self)->call(args, kwargs).release().ptr(); });
}

// tp_call itself: a __call__ bound by nanobind costs 100 ns more a call.
PyType_Slot operator_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call_operator)},
                                {0, nullptr}};
PyType_Slot plan_slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call_plan)}, {0, nullptr}};

void bind_context(nb::module_& m) {
  nb::class_<ContextObject>(m, "Context", "Packs, the forced backend and the choices made so far.")
      .def(nb::init<nb::object>(), "backend"_a = nb::none())
      .def("_load_pack", &ContextObject::load_pack, "path"_a, "trusted_keys"_a, "only_named_keys"_a,
           "allow_unsigned"_a)
      .def("operators", &ContextObject::operators, "Names of the operators in the packs, sorted.")
      .def(
          "operator",
          [](nb::object self, const std::string& name) { return new OperatorObject(self, name); },
          "name"_a, "The operator of that name. errors.NotFound offers the nearest ones.")
      .def("set_backend", &ContextObject::set_backend, "name"_a,
           "A backend for every call, best effort; '' returns to the operators' own order.")
      .def("choices_digest", &ContextObject::choices_digest,
           "64 hex digits over every choice made so far, whatever the order of the calls.")
      .def("_explain_json", &ContextObject::explain_json);
}

void bind_operator(nb::module_& m) {
  nb::class_<OperatorObject>(m, "Operator", nb::type_slots(operator_slots),
                             "An operator of a pack; op(x, w, out=y) calls it.")
      .def_prop_ro("name", [](const OperatorObject& self) { return self.face().op; })
      .def("describe", &OperatorObject::describe,
           "Formula, tensors, attributes, dtypes, default contract.")
      .def("explain", &OperatorObject::explain,
           "Why each candidate would or would not serve this call; runs nothing.")
      .def(
          "prepare",
          [](nb::handle self, nb::args args, nb::kwargs kwargs) {
            return nb::cast<OperatorObject&>(self).prepare(self, args, kwargs);
          },
          "A Plan for tensors of these shapes, strides, dtypes and device, or Unavailable.")
      .def("__repr__", [](const OperatorObject& self) {
        return "<opforge.Operator " + self.face().call_text() + ">";
      });
}

void bind_plan(nb::module_& m) {
  nb::class_<PlanObject>(m, "Plan", nb::type_slots(plan_slots),
                         "A prepared call: plan(x, w, out=y). A context manager.")
      .def("describe", &PlanObject::describe, "Kernel, variant, backend, tier, grade and why.")
      .def("close", &PlanObject::close, "Frees it; later calls raise errors.PlanClosed.")
      .def_prop_ro("closed", &PlanObject::closed)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](PlanObject& self, nb::args) { self.close(); });
}

void bind_process(nb::module_& m) {
  m.def("version", [] { return std::string(opforge_version()); });
  m.def("abi_version", &opforge_abi_version);
  m.def("seal", [] { check(opforge_seal()); });
  m.def("is_sealed", [] { return opforge_is_sealed() != 0; });
  m.def("develop", [] { check(opforge_develop()); });
  m.def(
      "set_threads", [](int threads) { check(opforge_set_threads(threads)); }, "threads"_a);
  m.def("sealed_misses_json", [] { return text_of(opforge_sealed_misses_json); });
  m.def("devices_json", [] {
    return text_of([](char** json) {
      const nb::gil_scoped_release released;  // drivers start
      return opforge_devices_json(json);
    });
  });
  m.def("fallbacks_json", [] { return text_of(opforge_fallbacks_json); });
  m.def("events_json", [] { return text_of(opforge_events_json); });
  m.def("metrics_text", [] { return text_of(opforge_metrics_text); });
  m.def("metrics_reset", [] { check(opforge_metrics_reset()); });
  m.def(
      "trace_start", [](std::size_t capacity) { check(opforge_trace_start(capacity)); },
      "capacity"_a = 0);
  m.def("trace_stop", [] { check(opforge_trace_stop()); });
  m.def("trace_take_json", [] { return text_of(opforge_trace_take_json); });
}

}  // namespace
}  // namespace opforge::python

NB_MODULE(_core, m) {
  using namespace opforge::python;
  // Operators live as long as what registered them with a framework: to the end of the process.
  nb::set_leak_warnings(false);
  m.doc() = "The C functions of libopforge for Python; use the package opforge.";
  bind_context(m);
  bind_operator(m);
  bind_plan(m);
  bind_process(m);
}
