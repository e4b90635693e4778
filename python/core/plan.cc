// PlanObject, declared in operator.hpp.
#include <algorithm>
#include <cstdint>

#include "allocate.hpp"
#include "errors.hpp"
#include "operator.hpp"

namespace opforge::python {
namespace {

bool on_host(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
}

void* aligned(void* data, std::size_t align) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return reinterpret_cast<void*>((address + align - 1) / align * align);
}

// Strides as numbers, and the row-major ones where DLPack has none.
void copy_strides(const DLTensor& tensor, std::int64_t* strides) {
  std::int64_t dense = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    strides[i] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    dense *= tensor.shape[i];
  }
}

constexpr const char* kTierNames[] = {"DEFAULT", "FAST", "HIGH_PRECISION", "DETERMINISTIC"};

}  // namespace

PlanObject::PlanObject(nb::object op, const OperatorFace& face, opforge_plan* plan,
                       const Call& call)
    : op_(std::move(op)), face_(face), plan_(plan), prepared_(call.count()) {
  for (std::size_t i = 0; i < call.count(); ++i) {
    const DLTensor* tensor = call.tensor(i);
    if (tensor == nullptr) continue;
    Prepared& prepared = prepared_[i];
    prepared.present = true;
    prepared.dtype = tensor->dtype;
    prepared.device = tensor->device;
    prepared.ndim = tensor->ndim;
    std::copy_n(tensor->shape, tensor->ndim, prepared.shape);
    copy_strides(*tensor, prepared.strides);
  }
  try {
    make_workspace(call);
  } catch (...) {
    close();  // the destructor of an object that was not made does not run
    throw;
  }
}

void PlanObject::make_workspace(const Call& call) {
  std::size_t align = 1;
  check(opforge_plan_workspace_bytes(plan_, &workspace_bytes_), face_.op);
  check(opforge_plan_workspace_align(plan_, &align), face_.op);
  if (workspace_bytes_ == 0) return;
  const std::size_t bytes = workspace_bytes_ + align - 1;
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (!prepared_[i].present || on_host(prepared_[i].device)) continue;
    opforge_output_info info{};
    info.ndim = 1;
    info.shape[0] = static_cast<std::int64_t>(bytes);
    info.dtype = {kDLUInt, 8, 1};
    info.device = prepared_[i].device;
    workspace_object_ = allocate(call.object(i), info, face_.op, "workspace");
    Argument argument;
    argument.take(workspace_object_.ptr(), {face_.op, "workspace", true});
    workspace_ = aligned(argument.data(), align);
    return;
  }
  workspace_host_.resize(bytes);
  workspace_ = aligned(workspace_host_.data(), align);
}

void PlanObject::close() {
  opforge_plan_destroy(plan_);
  plan_ = nullptr;
  workspace_object_ = nb::object();
  workspace_host_ = {};
  workspace_ = nullptr;
}

void PlanObject::require_open() const {
  if (plan_ != nullptr) [[likely]]
    return;
  const nb::object closed = nb::module_::import_("opforge.errors").attr("plan_closed")(face_.op);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(closed.ptr())), closed.ptr());
  throw nb::python_error();
}

void PlanObject::check_same(const Call& call, std::size_t i) const {
  const Prepared& was = prepared_[i];
  const DLTensor* now = call.tensor(i);
  bool same = (now != nullptr) == was.present;
  if (same && now != nullptr) {
    same = now->ndim == was.ndim && now->dtype.code == was.dtype.code &&
           now->dtype.bits == was.dtype.bits && now->device.device_type == was.device.device_type &&
           now->device.device_id == was.device.device_id;
    std::int64_t dense = 1;
    for (int d = now->ndim - 1; same && d >= 0; --d) {
      const std::int64_t stride = now->strides != nullptr ? now->strides[d] : dense;
      // Of a dim with one element or none the stride means nothing.
      same = now->shape[d] == was.shape[d] && (stride == was.strides[d] || was.shape[d] <= 1);
      dense *= now->shape[d];
    }
  }
  if (same) [[likely]]
    return;
  DLTensor expected{};
  expected.device = was.device;
  expected.ndim = was.ndim;
  expected.dtype = was.dtype;
  expected.shape = const_cast<std::int64_t*>(was.shape);
  expected.strides = const_cast<std::int64_t*>(was.strides);
  raise({face_.op, face_.tensors[i].name, was.present ? shape_text(expected) : "nothing",
         now != nullptr ? shape_text(*now) : "nothing",
         "a plan serves the shapes, strides, dtypes and devices that it was prepared for: prepare "
         "another, or call the operator"});
}

nb::object PlanObject::call(PyObject* args, PyObject* kwargs) {
  require_open();
  Call call(face_, args, kwargs, true);
  call.take_tensors();
  for (const std::size_t i : face_.outputs) {
    if (call.tensor(i) != nullptr || !prepared_[i].present) continue;
    opforge_output_info info{};
    info.ndim = prepared_[i].ndim;
    std::copy_n(prepared_[i].shape, info.ndim, info.shape);
    info.dtype = prepared_[i].dtype;
    info.device = prepared_[i].device;
    call.make_output(i, info);
  }
  constexpr std::size_t kInline = 16;
  void* inline_data[kInline];
  std::vector<void*> many_data(call.count() > kInline ? call.count() : 0);
  void** data = many_data.empty() ? inline_data : many_data.data();
  for (std::size_t i = 0; i < call.count(); ++i) {
    check_same(call, i);
    data[i] = call.tensor(i) != nullptr ? call.data(i) : nullptr;
  }
  call.find_stream();
  opforge_status status;
  {
    const nb::gil_scoped_release released;
    std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
    if (workspace_bytes_ != 0) turn.lock();
    status = opforge_plan_execute(plan_, data, call.count(), workspace_, call.options().stream);
  }
  check(status, face_.op);
  return call.results();
}

nb::dict PlanObject::describe() const {
  require_open();
  const opforge_plan_info* info = nullptr;
  check(opforge_plan_describe(plan_, &info), face_.op);
  nb::dict all;
  all["kernel"] = info->kernel;
  all["variant"] = info->variant;
  all["backend"] = info->backend;
  all["target"] = info->target;
  all["device"] = info->device;
  all["tier"] = kTierNames[info->tier];
  all["grade"] = info->grade;
  all["why"] = info->why;
  all["workspace_bytes"] = workspace_bytes_;
  return all;
}

}  // namespace opforge::python
