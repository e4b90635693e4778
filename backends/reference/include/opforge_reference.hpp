// Around a compiled reference: strided tensors of any dtype in, doubles to the reference, rounded
// results out. The generated unit describes the signature in tables and calls run(). The standard
// library and operator/reference.hpp only.
//
// Slots of 8 bytes, in order (toolchain/reference_kernel.hpp): for each tensor {pointer, present,
// dtype code, dims, strides in elements}, one for each attribute (double or integer), one for each
// dim symbol.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "operator/reference.hpp"

namespace opforge::reference_abi {

enum class AccessKind { kRead, kWrite, kUpdate };
struct TensorRow {
  const char* name;
  int rank;
  AccessKind access;
};
enum class AttributeKind { kInteger, kFloat, kText };
struct AttributeRow {
  const char* name;
  AttributeKind kind;
  const char* const* choices;  // kText
};

// A small float with `kMantissa` stored bits and `kExponent` exponent bits. kFinite: no infinities,
// NaN is all ones (e4m3).
template <int kExponent, int kMantissa, bool kFinite>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr unsigned kMaxExponent = (1u << kExponent) - 1;

  static double to_double(unsigned bits) {
    const unsigned mantissa = bits & ((1u << kMantissa) - 1);
    const unsigned exponent = (bits >> kMantissa) & kMaxExponent;
    const double sign = (bits >> (kExponent + kMantissa)) != 0 ? -1.0 : 1.0;
    if constexpr (kFinite) {
      if (exponent == kMaxExponent && mantissa == (1u << kMantissa) - 1)
        return std::numeric_limits<double>::quiet_NaN();
    } else if (exponent == kMaxExponent) {
      if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
      return sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - kBias - kMantissa);
    return sign *
           std::ldexp(double(mantissa + (1u << kMantissa)), int(exponent) - kBias - kMantissa);
  }

  static unsigned from_double(double value) {  // nearest, ties to even
    const unsigned sign = std::signbit(value) ? 1u << (kExponent + kMantissa) : 0;
    const unsigned nan = sign | (kMaxExponent << kMantissa) |
                         (kFinite ? (1u << kMantissa) - 1 : 1u << (kMantissa - 1));
    if (std::isnan(value)) return nan;
    const unsigned overflow = kFinite ? nan : sign | (kMaxExponent << kMantissa);
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return overflow;
    if (magnitude == 0) return sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - kBias) exponent = 1 - kBias;  // subnormals share the least exponent
    // nearbyint rounds to even in the default mode; a carry into the next exponent falls out of the
    // addition below.
    const auto units =
        static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, kMantissa - exponent)));
    const std::int64_t bits =
        std::int64_t(units) + ((std::int64_t(exponent) + kBias - 1) << kMantissa);
    const std::int64_t largest =
        kFinite ? (std::int64_t(kMaxExponent) << kMantissa) + (1 << kMantissa) - 2
                : (std::int64_t(kMaxExponent) << kMantissa) - 1;
    return bits > largest ? overflow : sign | unsigned(bits);
  }
};
using F16 = SmallFloat<5, 10, false>;
using BF16 = SmallFloat<8, 7, false>;
using F8E4M3 = SmallFloat<4, 3, true>;
using F8E5M2 = SmallFloat<5, 2, false>;

// Numbers of DType (tensor/dtype.hpp): f64 f32 f16 bf16 i8 u8 i32 i64 u32 u64 bool f8e4m3 f8e5m2.
inline int item_bytes(std::int64_t dtype) {
  constexpr int kBytes[] = {8, 4, 2, 2, 1, 1, 4, 8, 4, 8, 1, 1, 1};
  return kBytes[dtype];
}

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void write(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

inline double load_element(const void* at, std::int64_t dtype) {
  switch (dtype) {
    case 0:
      return read<double>(at);
    case 1:
      return read<float>(at);
    case 2:
      return F16::to_double(read<std::uint16_t>(at));
    case 3:
      return BF16::to_double(read<std::uint16_t>(at));
    case 4:
      return read<std::int8_t>(at);
    case 5:
      return read<std::uint8_t>(at);
    case 6:
      return read<std::int32_t>(at);
    case 7:
      return double(read<std::int64_t>(at));
    case 8:
      return read<std::uint32_t>(at);
    case 9:
      return double(read<std::uint64_t>(at));
    case 10:
      return read<std::uint8_t>(at) != 0;
    case 11:
      return F8E4M3::to_double(read<std::uint8_t>(at));
    default:
      return F8E5M2::to_double(read<std::uint8_t>(at));
  }
}

// Integers: rounded to nearest and held at the ends of their range; NaN gives 0.
template <class T>
void write_integer(void* at, double value) {
  const double rounded = std::isnan(value) ? 0 : std::nearbyint(value);
  if (rounded <= double(std::numeric_limits<T>::min()))
    return write(at, std::numeric_limits<T>::min());
  if (rounded >= double(std::numeric_limits<T>::max()))
    return write(at, std::numeric_limits<T>::max());
  write(at, static_cast<T>(rounded));
}

inline void store_element(void* at, std::int64_t dtype, double value) {
  switch (dtype) {
    case 0:
      return write(at, value);
    case 1:
      return write(at, static_cast<float>(value));
    case 2:
      return write(at, static_cast<std::uint16_t>(F16::from_double(value)));
    case 3:
      return write(at, static_cast<std::uint16_t>(BF16::from_double(value)));
    case 4:
      return write_integer<std::int8_t>(at, value);
    case 5:
      return write_integer<std::uint8_t>(at, value);
    case 6:
      return write_integer<std::int32_t>(at, value);
    case 7:
      return write_integer<std::int64_t>(at, value);
    case 8:
      return write_integer<std::uint32_t>(at, value);
    case 9:
      return write_integer<std::uint64_t>(at, value);
    case 10:
      return write(at, static_cast<std::uint8_t>(value != 0));
    case 11:
      return write(at, static_cast<std::uint8_t>(F8E4M3::from_double(value)));
    default:
      return write(at, static_cast<std::uint8_t>(F8E5M2::from_double(value)));
  }
}

// One tensor of the call, as its slots say.
struct View {
  char* data = nullptr;
  std::int64_t dtype = 0;
  std::vector<std::int64_t> dims, strides;

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t dim : dims) n *= dim;
    return n;
  }
  // Calls visit(address, index in row-major order) for each element.
  template <class Visit>
  void each(Visit visit) const {
    const std::int64_t n = count(), bytes = item_bytes(dtype);
    std::vector<std::int64_t> at(dims.size(), 0);
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < n; i++) {
      visit(data + offset * bytes, i);
      for (std::size_t d = dims.size(); d-- > 0;) {
        offset += strides[d];
        if (++at[d] < dims[d]) break;
        offset -= strides[d] * dims[d];
        at[d] = 0;
      }
    }
  }
};

class Slots {
 public:
  explicit Slots(const void* arguments) : next_(static_cast<const char*>(arguments)) {}
  template <class T>
  T take() {
    const T value = read<T>(next_);
    next_ += 8;
    return value;
  }

 private:
  const char* next_;
};

inline View take_view(Slots& slots, int rank, bool& present) {
  View view;
  view.data = slots.take<char*>();
  present = slots.take<std::int64_t>() != 0;
  view.dtype = slots.take<std::int64_t>();
  for (int i = 0; i < rank; i++) view.dims.push_back(slots.take<std::int64_t>());
  for (int i = 0; i < rank; i++) view.strides.push_back(slots.take<std::int64_t>());
  return view;
}

inline ReferenceTensor to_reference(const View& view, AccessKind access) {
  ReferenceTensor tensor;
  tensor.dims = view.dims;
  tensor.values.assign(std::size_t(view.count()), std::numeric_limits<double>::quiet_NaN());
  if (access != AccessKind::kWrite) {
    view.each([&](const char* at, std::int64_t i) {
      tensor.values[std::size_t(i)] = load_element(at, view.dtype);
    });
  }
  return tensor;
}

template <std::size_t kTensors, std::size_t kAttributes, std::size_t kSymbols>
void run(const void* arguments, const TensorRow (&tensors)[kTensors],
         const AttributeRow (&attributes)[kAttributes], const char* const (&symbols)[kSymbols],
         ReferenceFunction reference) {
  Slots slots(arguments);
  ReferenceCall call;
  std::vector<View> views;
  for (const TensorRow& row : tensors) {
    if (row.name == nullptr) break;
    bool present = true;
    views.push_back(take_view(slots, row.rank, present));
    ReferenceTensor tensor;
    if (present) tensor = to_reference(views.back(), row.access);
    tensor.present = present;
    call.tensors.emplace(row.name, std::move(tensor));
  }
  for (const AttributeRow& row : attributes) {
    if (row.name == nullptr) break;
    if (row.kind == AttributeKind::kFloat) {
      call.attributes.emplace(row.name, slots.take<double>());
    } else if (row.kind == AttributeKind::kInteger) {
      call.attributes.emplace(row.name, slots.take<std::int64_t>());
    } else {
      call.attributes.emplace(row.name, std::string(row.choices[slots.take<std::int64_t>()]));
    }
  }
  for (const char* symbol : symbols) {
    if (symbol == nullptr) break;
    call.dims.emplace(symbol, slots.take<std::int64_t>());
  }
  reference(call);
  std::size_t index = 0;
  for (const TensorRow& row : tensors) {
    if (row.name == nullptr) break;
    const View& view = views[index++];
    const ReferenceTensor& tensor = call.tensors.find(row.name)->second;
    if (row.access == AccessKind::kRead || !tensor.present) continue;
    view.each([&](char* at, std::int64_t i) {
      store_element(at, view.dtype, tensor.values[std::size_t(i)]);
    });
  }
}

// Outputs of a run that ran out of memory: all NaN (zero for integers), never a stale value that
// looks right.
template <std::size_t kTensors>
void poison(const void* arguments, const TensorRow (&tensors)[kTensors]) {
  Slots slots(arguments);
  for (const TensorRow& row : tensors) {
    if (row.name == nullptr) break;
    bool present = true;
    const View view = take_view(slots, row.rank, present);
    if (row.access == AccessKind::kRead || !present) continue;
    view.each([&](char* at, std::int64_t) {
      store_element(at, view.dtype, std::numeric_limits<double>::quiet_NaN());
    });
  }
}

}  // namespace opforge::reference_abi
