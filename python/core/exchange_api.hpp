// DLPack's versioned tensors and C exchange API (DLPack 1.2 and later), which Debian's header does
// not have yet. Layouts are those of https://github.com/dmlc/dlpack, include/dlpack/dlpack.h.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>

namespace opforge::python {

struct PackVersion {
  std::uint32_t major, minor;
};

inline constexpr std::uint64_t kReadOnlyFlag = 1;

struct ManagedTensor {  // DLManagedTensorVersioned
  PackVersion version;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);
  std::uint64_t flags;
  DLTensor tensor;
};

// A framework's table of functions, found as type(x).__dlpack_c_exchange_api__ (PyTorch 2.10 and
// later). Functions return 0, or -1 with a Python exception set. They validate nothing.
struct ExchangeApi {
  PackVersion version;
  ExchangeApi* previous;
  int (*allocate)(DLTensor* prototype, ManagedTensor** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*object_from_managed)(ManagedTensor* tensor, void** out);  // steals the tensor
  // May be null. What is filled in is owned by the object and good as long as that is.
  int (*tensor_from_object)(void* object, DLTensor* out);
  int (*current_stream)(DLDeviceType type, std::int32_t device, void** out);
};
inline constexpr char kExchangeCapsule[] = "dlpack_exchange_api";

}  // namespace opforge::python
