// Making DLPack tensors of memory that the caller owns.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace opforge {
inline namespace v1 {

inline DLDataType float32() { return {kDLFloat, 32, 1}; }
inline DLDataType float16() { return {kDLFloat, 16, 1}; }
inline DLDataType float64() { return {kDLFloat, 64, 1}; }
inline DLDataType bfloat16() { return {kDLBfloat, 16, 1}; }

// A DLTensor with its own shape and strides. Does not own the data.
class Tensor {
 public:
  // Row-major unless `strides` (in elements) are given.
  Tensor(void* data, DLDataType dtype, std::vector<std::int64_t> shape,
         std::vector<std::int64_t> strides = {}, DLDevice device = {kDLCPU, 0})
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    c_ = DLTensor{data,    device, static_cast<std::int32_t>(shape_.size()), dtype, nullptr,
                  nullptr, 0};
  }
  // What calls take; good as long as this tensor is.
  const DLTensor* dl() {
    c_.shape = shape_.data();
    c_.strides = strides_.empty() ? nullptr : strides_.data();
    return &c_;
  }
  void* data() const { return static_cast<char*>(c_.data) + c_.byte_offset; }

 private:
  std::vector<std::int64_t> shape_, strides_;
  DLTensor c_{};
};

}  // namespace v1
}  // namespace opforge
