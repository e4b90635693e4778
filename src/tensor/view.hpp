// A non-owning view of a tensor in host or device memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/result.hpp"
#include "tensor/dtype.hpp"

namespace opforge {

inline constexpr int kMaxRank = 8;

enum class DeviceKind : std::uint8_t { kCpu, kCuda, kOpenCl, kHip };
std::string_view device_kind_name(DeviceKind kind);

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int ordinal = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
std::string device_name(Device device);  // "cpu:0", "cuda:1"

// Strides are in elements and may be zero or negative. `data` points at element [0, ..., 0]. A null `data` with rank -1
// stands for an optional tensor that was not given.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Device device;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> dims{};
  std::array<std::int64_t, kMaxRank> strides{};

  static TensorView contiguous(void* data, DType dtype, std::span<const std::int64_t> dims, Device device = {});
  static TensorView absent();
  bool present() const { return rank >= 0; }
  bool is_contiguous() const;        // row-major without gaps; dims of 1 ignore their stride
  std::int64_t element_count() const;  // product of dims; 1 for rank 0; valid only after check_shape()
};

// Non-negative dims whose product and byte extent fit in 63 bits; rank within kMaxRank; data non-null unless empty.
Status check_shape(const TensorView& view, std::string_view name);
// The byte range [low, high) that the view touches; {0,0} when empty.
struct ByteRange { std::uintptr_t low = 0, high = 0; };
ByteRange byte_range(const TensorView& view);
bool overlaps(const TensorView& a, const TensorView& b);
std::string describe(const TensorView& view);  // "bf16[4096,1024] strides [1024,1] on cuda:0"

}  // namespace opforge
