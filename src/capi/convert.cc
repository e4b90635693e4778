#include "capi/convert.hpp"

#include <fmt/format.h>

namespace opforge::capi {
namespace {

// Type codes of later DLPack versions than the header's.
constexpr int kBoolCode = 6, kFloat8E4M3Code = 10, kFloat8E5M2Code = 12;

Result<DType> dtype_of(const DLDataType& type) {
  const auto is = [&](int code, int bits) { return type.code == code && type.bits == bits; };
  if (type.lanes == 1) {
    if (is(kDLFloat, 64)) return DType::kF64;
    if (is(kDLFloat, 32)) return DType::kF32;
    if (is(kDLFloat, 16)) return DType::kF16;
    if (is(kDLBfloat, 16)) return DType::kBF16;
    if (is(kDLInt, 8)) return DType::kI8;
    if (is(kDLUInt, 8)) return DType::kU8;
    if (is(kDLInt, 32)) return DType::kI32;
    if (is(kDLInt, 64)) return DType::kI64;
    if (is(kDLUInt, 32)) return DType::kU32;
    if (is(kDLUInt, 64)) return DType::kU64;
    if (is(kBoolCode, 8)) return DType::kBool;
    if (is(kFloat8E4M3Code, 8)) return DType::kF8E4M3;
    if (is(kFloat8E5M2Code, 8)) return DType::kF8E5M2;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("DLPack dtype {{code {}, {} bits, {} lanes}} is none of opforge's: f64 "
                          "f32 f16 bf16 f8e4m3 f8e5m2 "
                          "i8 i32 i64 u8 u32 u64 bool, one lane",
                          type.code, type.bits, type.lanes));
}

Result<Device> device_of(const DLDevice& device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return Device{DeviceKind::kCpu, 0};
    case kDLCUDA:
    case kDLCUDAManaged:
      return Device{DeviceKind::kCuda, device.device_id};
    case kDLOpenCL:
      return Device{DeviceKind::kOpenCl, device.device_id};
    default:
      return fail(Code::kInvalidArgument,
                  fmt::format("DLPack device type {} is not served: CPU, CUDA and OpenCL are",
                              static_cast<int>(device.device_type)));
  }
}

}  // namespace

Status read_tensor(const DLTensor& tensor, TensorView& view) {
  OPFORGE_ASSIGN(view.dtype, dtype_of(tensor.dtype));
  OPFORGE_ASSIGN(view.device, device_of(tensor.device));
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} dims, expected 0 to {}", tensor.ndim, kMaxRank));
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    return fail(Code::kInvalidArgument, "the shape is null");
  view.rank = tensor.ndim;
  std::int64_t dense = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    view.dims[i] = tensor.shape[i];
    view.strides[i] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    // Overflow is refused by name when the shape is checked; here it only must not be undefined.
    if (__builtin_mul_overflow(dense, tensor.shape[i], &dense)) dense = 0;
  }
  view.data =
      tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  return {};
}

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * itemsize(dtype));
  const auto type = [&](int code) { return DLDataType{static_cast<std::uint8_t>(code), bits, 1}; };
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
      return type(kDLFloat);
    case DType::kBF16:
      return type(kDLBfloat);
    case DType::kI8:
    case DType::kI32:
    case DType::kI64:
      return type(kDLInt);
    case DType::kU8:
    case DType::kU32:
    case DType::kU64:
      return type(kDLUInt);
    case DType::kBool:
      return type(kBoolCode);
    case DType::kF8E4M3:
      return type(kFloat8E4M3Code);
    case DType::kF8E5M2:
      return type(kFloat8E5M2Code);
  }
  return {};
}

DLDevice to_dlpack(Device device) {
  switch (device.kind) {
    case DeviceKind::kCpu:
      break;
    case DeviceKind::kCuda:
      return {kDLCUDA, device.ordinal};
    case DeviceKind::kOpenCl:
      return {kDLOpenCL, device.ordinal};
    case DeviceKind::kHip:
      return {kDLROCM, device.ordinal};
  }
  return {kDLCPU, 0};
}

Status CallArguments::set(const DLTensor* const* tensors, std::size_t tensor_count,
                          const opforge_attribute* attributes, std::size_t attribute_count,
                          const opforge_call_options* options) {
  if (tensor_count != 0 && tensors == nullptr)
    return fail(Code::kInvalidArgument, "the list of tensors is null");
  if (attribute_count != 0 && attributes == nullptr)
    return fail(Code::kInvalidArgument, "the list of attributes is null");
  if (tensor_count > kInline) many_tensors_.resize(tensor_count);
  if (attribute_count > kInline) many_attributes_.resize(attribute_count);
  tensors_ = {tensor_count > kInline ? many_tensors_.data()
                                     : reinterpret_cast<TensorView*>(inline_tensors_),
              tensor_count};
  attributes_ = {attribute_count > kInline ? many_attributes_.data()
                                           : reinterpret_cast<CallAttribute*>(inline_attributes_),
                 attribute_count};
  for (std::size_t i = 0; i < tensor_count; ++i) {
    TensorView& view = *new (&tensors_[i]) TensorView;
    if (tensors[i] == nullptr) {
      view = TensorView::absent();
      continue;
    }
    if (auto read = read_tensor(*tensors[i], view); !read) {
      read.error().message = fmt::format("tensor {}: {}", i, read.error().message);
      return read;
    }
  }
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const opforge_attribute& given = attributes[i];
    CallAttribute& attribute = *new (&attributes_[i]) CallAttribute;
    if (given.name == nullptr)
      return fail(Code::kInvalidArgument, fmt::format("attribute {} has no name", i));
    attribute.name = given.name;
    switch (given.type) {
      case OPFORGE_ATTRIBUTE_INT:
      case OPFORGE_ATTRIBUTE_BOOL:
        attribute.kind = CallAttribute::Kind::kInt;
        attribute.integer = given.integer;
        break;
      case OPFORGE_ATTRIBUTE_FLOAT:
        attribute.kind = CallAttribute::Kind::kFloat;
        attribute.number = given.number;
        break;
      case OPFORGE_ATTRIBUTE_TEXT:
        if (given.text == nullptr)
          return fail(Code::kInvalidArgument, fmt::format("attribute {} has no text", given.name));
        attribute.kind = CallAttribute::Kind::kText;
        attribute.text = given.text;
        break;
      default:
        return fail(Code::kInvalidArgument, fmt::format("attribute {} has type {}, expected 0 to 3",
                                                        given.name, static_cast<int>(given.type)));
    }
  }
  if (options == nullptr) return {};
  OPFORGE_ASSIGN(const opforge_call_options known, options_from(options));
  return set_options(known, tensors, tensor_count);
}

Status CallArguments::set_options(const opforge_call_options& given, const DLTensor* const* tensors,
                                  std::size_t tensor_count) {
  OPFORGE_ASSIGN(options_.contract, contract_from(given.contract));
  if (given.backend != nullptr) options_.backend = given.backend;
  switch (given.proof) {
    case OPFORGE_PROOF_DEFAULT:
      options_.proof = ProofPolicy::kDefault;
      break;
    case OPFORGE_PROOF_REQUIRED:
      options_.proof = ProofPolicy::kRequired;
      break;
    case OPFORGE_PROOF_OFF:
      options_.proof = ProofPolicy::kOff;
      break;
    default:
      return fail(Code::kInvalidArgument,
                  fmt::format("proof is {}, expected 0 to 2", static_cast<int>(given.proof)));
  }
  options_.allow_ptx = given.allow_ptx != 0;
  options_.stream = given.stream;
  options_.facts.lockstep = given.lockstep != 0;
  options_.facts.rank = given.rank;
  options_.facts.world_size = given.world_size == 0 ? 1 : given.world_size;
  if (options_.facts.world_size < 1 || given.rank < 0 || given.rank >= options_.facts.world_size) {
    return fail(Code::kInvalidArgument,
                fmt::format("rank is {} of {}", given.rank, options_.facts.world_size));
  }
  if (given.precondition != nullptr) {
    options_.facts.user = [given, tensors, tensor_count](std::span<const TensorView>) {
      const char* reason = nullptr;
      if (given.precondition(given.precondition_user, tensors, tensor_count, &reason) != 0)
        return Support::yes();
      return Support::no(reason != nullptr && *reason != '\0'
                             ? reason
                             : "the caller's precondition refused without a reason");
    };
  }
  return {};
}

ValueMap CallArguments::attribute_map() const {
  ValueMap map;
  for (const CallAttribute& one : attributes_) {
    Value value = one.integer;
    if (one.kind == CallAttribute::Kind::kFloat) value = one.number;
    if (one.kind == CallAttribute::Kind::kText) value = std::string(one.text);
    map.insert_or_assign(std::string(one.name), std::move(value));
  }
  return map;
}

}  // namespace opforge::capi
