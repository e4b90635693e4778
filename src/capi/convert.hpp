// From the C structs of a call to the runtime's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "capi/support.hpp"

namespace opforge::capi {

// kInvalidArgument names what is wrong with the tensor: device type, dtype, lanes, rank.
Status read_tensor(const DLTensor& tensor, TensorView& view);
DLDataType to_dlpack(DType dtype);
DLDevice to_dlpack(Device device);

// The arguments of one call: on the stack for calls of ordinary size.
class CallArguments {
 public:
  // The structs given must outlive this.
  static constexpr std::size_t kInline = 12;
  Status set(const DLTensor* const* tensors, std::size_t tensor_count,
             const opforge_attribute* attributes, std::size_t attribute_count,
             const opforge_call_options* options);
  CallArguments() = default;
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  std::span<const TensorView> tensors() const { return tensors_; }
  std::span<const CallAttribute> attributes() const { return attributes_; }
  ValueMap attribute_map() const;
  const CallOptions& options() const { return options_; }

 private:
  Status set_options(const opforge_call_options& given, const DLTensor* const* tensors,
                     std::size_t tensor_count);
  // Written as far as they are used, and no further: a call's time counts.
  alignas(TensorView) std::byte inline_tensors_[kInline * sizeof(TensorView)];
  alignas(CallAttribute) std::byte inline_attributes_[kInline * sizeof(CallAttribute)];
  std::vector<TensorView> many_tensors_;
  std::vector<CallAttribute> many_attributes_;
  std::span<TensorView> tensors_;
  std::span<CallAttribute> attributes_;
  CallOptions options_;
};

}  // namespace opforge::capi
