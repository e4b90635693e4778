// What a call needs to know of an operator. This part of a declaration travels in packs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/tier.hpp"
#include "operator/value.hpp"
#include "tensor/view.hpp"

namespace opforge {

enum class Access : std::uint8_t { kRead, kWrite, kUpdate };

// A tensor argument. `dims` are symbols ("M") or expressions over symbols ("2*N"). The first may be "...M": zero or more
// leading dims of the caller's tensor, collapsed to one dim M where strides allow, refused by name where not.
struct TensorArg {
  std::string name;
  std::vector<std::string> dims;
  std::string dtype;                     // a dtype variable ("T") or a dtype name ("f32")
  Access access = Access::kRead;
  bool optional = false;                 // may be absent
  std::vector<std::string> may_alias;    // names of arguments that may be exactly the same memory (same data and strides)
};

enum class AttrType : std::uint8_t { kInt, kFloat, kBool, kText };

struct AttrArg {
  std::string name;
  AttrType type = AttrType::kFloat;
  std::optional<Value> default_value;    // none: required
  std::optional<double> min, max;        // inclusive
  std::vector<std::string> choices;      // kText
  bool baked = false;                    // compiled into the code: part of a variant
  std::vector<Value> baked_values;       // the values that are built ahead; booleans: 0 and 1 if empty
};

// One allowed assignment of dtype variables, e.g. {{"T", kBF16}, {"W", kF32}}.
using DTypeCombo = std::map<std::string, DType, std::less<>>;
std::string to_string(const DTypeCombo& combo);  // "T=bf16,W=f32"

struct Signature {
  std::string name;                              // "<group>.<op>"
  std::vector<TensorArg> tensors;                // in call order
  std::vector<AttrArg> attributes;
  std::vector<DTypeCombo> dtypes;                // allowed combinations, the most common first
  std::vector<std::string> reduced_dims;         // symbols whose elements are summed or compared together
  Contract default_contract = Tier::kHighPrecision;
  std::vector<std::string> backend_priority;     // backend names, first preferred; the others follow by name
  std::map<std::string, std::string> deterministic_kernel;  // backend name -> kernel id that fixes the bit class
};

const TensorArg* find_tensor(const Signature& signature, std::string_view name);
const AttrArg* find_attribute(const Signature& signature, std::string_view name);

// A call's arguments, matched against a signature.
struct BoundCall {
  DTypeCombo dtypes;
  ValueMap dims;                                 // symbol -> extent (after collapsing)
  ValueMap attributes;                           // every attribute, defaults filled in
  std::vector<TensorView> tensors;               // collapsed to the declared rank; absent optionals stay absent
};

// Check rank, dtype, dims ("N is 4096 in x but 4095 in w"), device (all the same), attributes (range, choices), overlap of
// outputs with anything not declared to alias, null data, sizes. `attributes` may leave out those with defaults.
Result<BoundCall> bind_call(const Signature& signature, std::span<const TensorView> tensors, const ValueMap& attributes);

// Symbols that an expression over a call may use: dims, attributes, dtype variables, tensor properties (x.dim0, ...).
// `pointer_properties` false leaves x.align unresolved (prepare without data).
class CallSymbols {
 public:
  CallSymbols(const Signature& signature, const BoundCall& call);
  void add(std::string_view symbol, Value value);
  void add(const ValueMap& values);
  const Value* find(std::string_view symbol) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace opforge
