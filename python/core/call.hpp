// The arguments of one call from Python, read as the operator declares them.
#pragma once

#include <nanobind/nanobind.h>
#include <opforge/opforge.h>

#include <memory>
#include <string>
#include <vector>

#include "argument.hpp"

namespace opforge::python {

// What calls need to know of an operator, read once.
class OperatorFace {
 public:
  enum class Keyword : std::uint8_t {
    kTensor,
    kAttribute,
    kOut,
    kContract,
    kBackend,
    kProof,
    kAllowPtx,
    kStream,
    kLockstep,
    kRank,
    kWorldSize,
    kPrecondition,
  };
  struct Name {
    PyObject* text;  // interned, never freed: operators are few
    Keyword keyword;
    std::size_t index;
  };
  struct Tensor {
    std::string name;
    opforge_access access;
    bool optional;
  };
  struct Attribute {
    std::string name;
    opforge_attribute_type type;
  };

  OperatorFace(std::string op, const opforge_operator_info& info);
  // Null for a keyword that the operator does not take.
  const Name* find(PyObject* keyword) const;
  std::string call_text() const;  // "norm.rms_norm(x, w, *, out=y, eps=...)"

  std::string op;
  std::vector<Tensor> tensors;
  std::vector<Attribute> attributes;
  std::vector<std::size_t> inputs;   // indices of what positional arguments are
  std::vector<std::size_t> outputs;  // of what `out` is
  std::vector<Name> names;
  // The outputs that were inferred last and what from: most calls repeat. Guarded by the GIL.
  struct Inferred {
    std::vector<std::int64_t> key;
    std::vector<opforge_output_info> outputs;
  };
  mutable Inferred inferred;
};

// Reads arguments, holds the tensors during the call, makes missing outputs. Objects are borrowed
// from `args` and `kwargs`, which must outlive it.
class Call {
 public:
  // `rebinding`: of a plan, where only tensors, `out` and `stream` may be given.
  Call(const OperatorFace& face, PyObject* args, PyObject* kwargs, bool rebinding = false);

  void take_tensors();
  // The caller's precondition: "" if the call may run, else its reason.
  std::string refused_by_caller() const;
  // Makes the outputs that were not given.
  void make_outputs(opforge_context* context);
  void make_output(std::size_t tensor, const opforge_output_info& info);
  // The current stream of the tensors' framework, unless the caller named one.
  void find_stream();
  nb::object results() const;

  std::size_t count() const { return face_.tensors.size(); }
  PyObject* object(std::size_t tensor) const { return objects_[tensor]; }
  const DLTensor* tensor(std::size_t tensor) const { return list_[tensor]; }
  void* data(std::size_t tensor) const { return arguments_[tensor].data(); }
  PyObject* model() const;  // the first tensor given: what new ones are like
  const DLTensor* const* list() const { return list_; }
  const std::vector<opforge_attribute>& attributes() const { return attributes_; }
  const opforge_call_options& options() const { return options_; }
  const OperatorFace& face() const { return face_; }

 private:
  void set_keyword(PyObject* key, PyObject* value, bool rebinding);
  void set_tensor(std::size_t tensor, PyObject* value);
  void set_outputs(PyObject* value);
  void set_attribute(std::size_t attribute, PyObject* value);
  void take(std::size_t tensor);
  std::vector<std::int64_t> shape_key() const;

  static constexpr std::size_t kInline = 8;
  const OperatorFace& face_;
  PyObject* inline_objects_[kInline];
  const DLTensor* inline_list_[kInline];
  Argument inline_arguments_[kInline];
  std::vector<PyObject*> many_objects_;
  std::vector<const DLTensor*> many_list_;
  std::unique_ptr<Argument[]> many_arguments_;
  PyObject** objects_;
  const DLTensor** list_;
  Argument* arguments_;
  std::vector<nb::object> made_;
  std::vector<opforge_attribute> attributes_;
  opforge_call_options options_;
  PyObject* precondition_ = nullptr;
  bool stream_given_ = false;
};

}  // namespace opforge::python
