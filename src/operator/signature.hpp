// What a call needs to know of an operator. This part of a declaration travels in packs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/tier.hpp"
#include "operator/expression.hpp"
#include "operator/value.hpp"
#include "tensor/view.hpp"

namespace opforge {

enum class Access : std::uint8_t { kRead, kWrite, kUpdate };

// A tensor argument. `dims` are symbols ("M") or expressions over symbols ("2*N"). The first may be
// "...M": zero or more leading dims of the caller's tensor, collapsed to one dim M where strides
// allow, refused by name where not.
struct TensorArg {
  std::string name;
  std::vector<std::string> dims;
  std::string dtype;  // a dtype variable ("T") or a dtype name ("f32")
  Access access = Access::kRead;
  bool optional = false;  // may be absent
  std::vector<std::string>
      may_alias;  // names of arguments that may be exactly the same memory (same data and strides)
};

enum class AttrType : std::uint8_t { kInt, kFloat, kBool, kText };

struct AttrArg {
  std::string name;
  AttrType type = AttrType::kFloat;
  std::optional<Value> default_value;  // none: required
  std::optional<double> min, max;      // inclusive
  std::vector<std::string> choices;    // kText
  bool baked = false;                  // compiled into the code: part of a variant
  std::vector<Value> baked_values;  // the values that are built ahead; booleans: 0 and 1 if empty
};

// One allowed assignment of dtype variables, e.g. {{"T", kBF16}, {"W", kF32}}.
using DTypeCombo = std::map<std::string, DType, std::less<>>;
std::string to_string(const DTypeCombo& combo);  // "T=bf16,W=f32"

struct Signature {
  std::string name;                // "<group>.<op>"
  std::vector<TensorArg> tensors;  // in call order
  std::vector<AttrArg> attributes;
  std::vector<DTypeCombo> dtypes;         // allowed combinations, the most common first
  std::vector<std::string> reduced_dims;  // symbols whose elements are summed or compared together
  Contract default_contract = Tier::kHighPrecision;
  std::vector<std::string>
      backend_priority;  // backend names, first preferred; the others follow by name
  std::map<std::string, std::string>
      deterministic_kernel;  // backend name -> kernel id that fixes the bit class
};

const TensorArg* find_tensor(const Signature& signature, std::string_view name);
const AttrArg* find_attribute(const Signature& signature, std::string_view name);

// A call's arguments, matched against a signature.
struct BoundCall {
  DTypeCombo dtypes;
  ValueMap dims;                    // symbol -> extent (after collapsing)
  ValueMap attributes;              // every attribute, defaults filled in
  std::vector<TensorView> tensors;  // collapsed to the declared rank; absent optionals stay absent
};

// Check rank, dtype, dims ("N is 4096 in x but 4095 in w"), device (all the same), attributes
// (range, choices), overlap of outputs with anything not declared to alias, null data, sizes.
// `attributes` may leave out those with defaults.
// - A tensor of rank 0 counts as [1] where a dim is declared. Dims of extent 1, and all dims of an
// empty tensor, get the
//   stride that a contiguous tensor would have there, so that guards on strides do not see
//   meaningless values.
// - Tensors with the same leading "...M" must have the same dims there; M is their product (1 when
// there are none).
//   kUnavailable, naming the tensor and its strides, when they cannot be seen as one dim.
// - Outputs may share memory with another tensor only as declared by may_alias, with the same data,
// dims and strides;
//   views that interleave without sharing an element are fine. An output whose own elements share
//   memory is refused.
// - A symbol that only absent tensors have is 0; a dtype variable that only they have takes the
// first combination. Everything else that is wrong is kInvalidArgument.
Result<BoundCall> bind_call(const Signature& signature, std::span<const TensorView> tensors,
                            const ValueMap& attributes);

// The attributes part of bind_call: defaults filled in, integers converted where a float is
// declared.
Result<ValueMap> bind_attributes(const Signature& signature, const ValueMap& attributes);

bool is_dtype_variable(std::string_view dtype);  // not the name of a dtype
// "M" of "...M"; empty for any other text.
std::string_view leading_symbol(std::string_view dim);
// The dims that are plain symbols, "..." taken off, each once, in order of appearance: the keys of
// BoundCall::dims.
std::vector<std::string> dim_symbols(const Signature& signature);
std::vector<std::string> dtype_variables(
    const Signature& signature);  // each once, in order of appearance

// The device properties that launch records may use; whoever evaluates one adds them all, from a
// DeviceInfo.
const std::vector<std::string>&
device_symbols();  // "device.sm_count", "device.shared_bytes", "device.warp_size"

// Symbols that an expression over a call may use: dims, attributes, dtype variables as text and
// T.itemsize, and of each tensor x: x.dim0.., x.stride0.. (elements), x.align, x.itemsize, x.dtype
// (text), x.dtype_code (value of the enum), x.rank (declared), x.present. x.align is 256 where data
// is null. An absent tensor has dims and strides 0 and align 256. Tunables and device properties
// are added by the caller.
class CallSymbols {
 public:
  CallSymbols(const Signature& signature, const BoundCall& call);
  void add(std::string_view symbol, Value value);  // replaces
  void add(const ValueMap& values);
  const Value* find(std::string_view symbol) const;
  SymbolLookup lookup() const;  // this must outlive the result

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace opforge
