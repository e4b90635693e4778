// The memory behind a GuardedTensor. Internal to verify.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "verify/inputs.hpp"

namespace opforge {

struct GuardedTensor::State {
  DeviceApi* api = nullptr;
  int ordinal = 0;
  void* allocation = nullptr;
  std::size_t allocation_bytes = 0;
  std::size_t data_at = 0;  // byte offset of element [0, ..., 0] in the allocation
  TensorView view = TensorView::absent();
  std::vector<std::int64_t> dims;  // as declared
  unsigned char canary = 0xff;
  unsigned char poison = 0xff;  // of the last reset
  bool written =
      false;  // by the code under trial, through this tensor or one that shares the memory
  bool whole_output = false;  // kWrite: poisoned before a run
  // Not tiled: the whole allocation as it was put. Tiled: the values of one tile, repeated over the
  // data.
  std::string image;
  std::string tile;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (allocation != nullptr) api->release(ordinal, allocation, nullptr);
  }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(allocation) + offset; }
  bool tiled() const { return !tile.empty(); }
  std::size_t element_bytes() const { return itemsize(view.dtype); }
};

// Calls visit(index, byte offset from element [0, ..., 0]) for each element, in row-major order.
template <class Visit>
void for_each_element(const TensorView& view, Visit&& visit) {
  const std::int64_t count = view.element_count();
  const auto size = static_cast<std::int64_t>(itemsize(view.dtype));
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, offset * size);
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++index[axis] < view.dims[axis]) break;
      offset -= view.strides[axis] * view.dims[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace opforge
