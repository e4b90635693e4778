// Contexts, operators and plans as Python objects.
#pragma once

#include <nanobind/nanobind.h>
#include <opforge/opforge.h>

#include <mutex>
#include <string>
#include <vector>

#include "call.hpp"

namespace opforge::python {

// Owns a C context.
class ContextObject {
 public:
  explicit ContextObject(nb::object backend);
  ~ContextObject() { opforge_context_destroy(handle_); }
  ContextObject(const ContextObject&) = delete;
  ContextObject& operator=(const ContextObject&) = delete;

  void load_pack(const std::string& path, const std::vector<std::string>& trusted_keys,
                 bool only_named_keys, bool allow_unsigned);
  std::vector<std::string> operators() const;
  void set_backend(const std::string& name);
  std::string choices_digest() const;
  // What a call of these tensors would be served by, without the tensors: rows of (dtype code,
  // bits, dims, strides), None for an absent one. For coverage.
  std::string explain_json(const std::string& op, nb::list tensors, const std::string& device,
                           nb::dict attributes, const std::string& contract) const;
  opforge_context* handle() const { return handle_; }

 private:
  opforge_context* handle_ = nullptr;
};

class OperatorObject {
 public:
  OperatorObject(nb::object context, const std::string& name);

  nb::object call(PyObject* args, PyObject* kwargs) const;
  nb::object explain(nb::args args, nb::kwargs kwargs) const;
  nb::object prepare(nb::handle self, nb::args args, nb::kwargs kwargs) const;
  const OperatorFace& face() const { return face_; }
  nb::dict describe() const;  // formula, tensors, attributes, dtypes, ...

 private:
  nb::object context_;  // keeps the handle good
  opforge_context* handle_;
  const opforge_operator_info* info_;
  OperatorFace face_;
};

// A prepared call. Its workspace is one: calls of one plan take turns on a CPU, and belong to one
// stream on a device.
class PlanObject {
 public:
  PlanObject(nb::object op, const OperatorFace& face, opforge_plan* plan, const Call& call);
  ~PlanObject() { close(); }
  PlanObject(const PlanObject&) = delete;
  PlanObject& operator=(const PlanObject&) = delete;

  nb::object call(PyObject* args, PyObject* kwargs);
  void close();
  bool closed() const { return plan_ == nullptr; }
  nb::dict describe() const;

 private:
  struct Prepared {
    bool present = false;
    DLDataType dtype{};
    DLDevice device{};
    int ndim = 0;
    std::int64_t shape[kMaxRank], strides[kMaxRank];
  };
  void make_workspace(const Call& call);
  void check_same(const Call& call, std::size_t tensor) const;
  void require_open() const;

  nb::object op_;  // keeps the face good
  const OperatorFace& face_;
  opforge_plan* plan_;
  std::vector<Prepared> prepared_;
  std::size_t workspace_bytes_ = 0;
  nb::object workspace_object_;       // on a device: a tensor of the caller's framework
  std::vector<char> workspace_host_;  // on a CPU
  void* workspace_ = nullptr;
  std::mutex turn_;  // of the workspace
};

}  // namespace opforge::python
