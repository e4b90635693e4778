// A Python tensor as a DLTensor, by the cheapest way that its type has.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "exchange_api.hpp"

namespace opforge::python {

namespace nb = nanobind;

inline constexpr int kMaxRank = 8;  // of tensors that opforge serves

// How tensors of one Python type are read.
enum class Way : std::uint8_t {
  kExchange,  // DLPack's C exchange API
  kBuffer,    // the buffer protocol (NumPy, array.array, memoryview)
  kCapsule,   // __dlpack__()
  kNone,      // no tensor
};

struct TypeInfo {
  PyTypeObject* type = nullptr;  // kept alive
  Way way = Way::kNone;
  const ExchangeApi* api = nullptr;
  bool torch = false;  // torch.Tensor or a subclass
  bool fake = false;   // PyTorch's tensors without memory
  bool numpy = false;
};

// Known types are looked up in a short list. Needs the GIL.
TypeInfo type_info(PyObject* object);

// What messages say of an argument, and whether it is written.
struct Role {
  const std::string& op;
  const char* name;
  bool written;
};

// Holds what reading the tensor needs until it is destroyed. The object itself must outlive it.
class Argument {
 public:
  Argument() = default;
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  ~Argument() { release(); }

  // Throws opforge.errors.InvalidArgument for what is no tensor, is read-only though written,
  // requires a gradient while gradients are recorded, carries a pending negation or has no memory.
  void take(PyObject* object, const Role& role);
  void release();
  const DLTensor* tensor() const { return &tensor_; }
  // The address of the first element; null where the tensor is empty.
  void* data() const {
    return tensor_.data == nullptr ? nullptr
                                   : static_cast<char*>(tensor_.data) + tensor_.byte_offset;
  }

 private:
  void take_exchange(PyObject* object, const TypeInfo& info, const Role& role);
  void take_buffer(PyObject* object, const Role& role);
  void take_capsule(PyObject* object, const Role& role);
  void set_buffer_dims(const Role& role);

  DLTensor tensor_{};
  std::int64_t shape_[kMaxRank], strides_[kMaxRank];
  Py_buffer buffer_;
  PyObject* capsule_ = nullptr;
  bool has_buffer_ = false;
};

// "Tensor of torch.float32", "list": what a message calls an object.
std::string kind_of(PyObject* object);
std::string dtype_text(DLDataType dtype);        // "f32"
std::string shape_text(const DLTensor& tensor);  // "f32[4, 8] strides [8, 1] on cpu:0"
std::string device_text(DLDevice device);        // "cuda:0"

}  // namespace opforge::python
