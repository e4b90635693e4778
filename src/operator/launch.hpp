// The launch record: everything that a launcher must know to run compiled code, as data. All text
// fields named "expr" are in the expression language (operator/expression.hpp). Every launch record
// of a Triton, TileLang, CuTe DSL, cuTile, CUDA C++ or C++ kernel can be written in it; no operator
// has launch code of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/expression.hpp"

namespace opforge {

enum class ParamType : std::uint8_t {
  kPtr,
  kI8,
  kI32,
  kI64,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kBytes,      // an aggregate passed by value: `fields` at their offsets, `size_bytes` in all
  kTensorMap,  // a 128-byte TMA descriptor, encoded by the launcher from `tensor_map`
};
std::size_t param_size_bytes(ParamType type);  // 8 for kPtr, 128 for kTensorMap, 0 for kBytes
std::string_view param_type_name(
    ParamType type);                    // "ptr", "i32", "bf16", "bytes", "tensor_map", ...
bool is_integer_param(ParamType type);  // kI8 .. kU64
bool is_float_param(ParamType type);    // kF16 .. kF64

// A TMA tiled descriptor (cuTensorMapEncodeTiled). Lists run from the innermost dim outwards.
struct TensorMapSpec {
  std::string base;     // tensor name, optionally "+ expr" in bytes; or "workspace + expr"
  std::string element;  // dtype name of an element, e.g. "bf16"
  std::vector<std::string> dims;             // expr, elements
  std::vector<std::string> strides;          // expr, bytes, of dims 1..rank-1
  std::vector<std::string> box;              // expr, elements
  std::vector<std::string> element_strides;  // expr; empty: all 1
  int interleave = 0, swizzle = 0, l2_promotion = 0, oob_fill = 0;  // the driver's enumerators
};

// One kernel parameter. `value`:
//   kPtr: "null", "workspace", "workspace + expr", a tensor name, or "name + expr" (bytes); an
//   absent optional is null other scalars: an expr; text attributes are not allowed. A value that
//   does not fit its type fails the call by name (so a dim bound as i32 brings its own guard).
struct Binding {
  std::string name;  // the parameter's name, for messages and generated code
  ParamType type = ParamType::kPtr;
  std::string value;
  struct Field {
    std::uint32_t offset_bytes;
    ParamType type;
    std::string value;
  };
  std::vector<Field> fields;     // kBytes
  std::uint32_t size_bytes = 0;  // kBytes
  TensorMapSpec tensor_map;      // kTensorMap
};

// A parsed pointer value: null, the workspace or a tensor, and a number of bytes to add.
struct PointerValue {
  enum class Base : std::uint8_t { kNull, kWorkspace, kTensor };
  Base base = Base::kNull;
  std::string tensor;    // kTensor
  Expression add_bytes;  // 0 when none was written
};
// kInvalidDeclaration for anything but the forms above (Binding, kPtr).
Result<PointerValue> parse_pointer(std::string_view text);

// Does `value` fit a scalar parameter of this type? Integers want an integer in range; floats take
// integers too, and a finite value that would become infinite does not fit. kInvalidArgument says
// what came and what fits.
Status check_fits(ParamType type, const Value& value);

enum class StepKind : std::uint8_t { kKernel, kMemset };

// CPU code: grid[0] counts work items (rows, elements), block[0] is the least number of items given
// to one call of the block function; the other fields are unused. CUDA: the driver's meaning; an
// empty expr is 1 (0 for shared_bytes).
struct LaunchStep {
  StepKind kind = StepKind::kKernel;
  std::string entry;  // kKernel: the source's entry; the artifact maps it to a symbol
  std::vector<Binding> bindings;
  std::array<std::string, 3> grid;     // expr
  std::array<std::string, 3> block;    // expr
  std::array<std::string, 3> cluster;  // expr; all empty: no cluster
  std::string shared_bytes;            // expr, dynamic shared memory
  bool cooperative = false;
  bool programmatic = false;  // programmatic dependent launch (stream serialization allowed)
  std::string memset_target;  // kMemset: as a kPtr value
  std::string memset_bytes;   // expr
  std::string memset_value;   // expr, a byte
};

// What must hold for this code to be used. `expr` sees dims, attributes, tunables, tensors and the
// device.
struct Guard {
  std::string expr;
  std::string reason;  // shown when it fails, e.g. "the last dim of x is not contiguous"
};

struct LaunchRecord {
  std::vector<LaunchStep> steps;
  std::string workspace_bytes;  // expr; empty: 0
  std::uint32_t workspace_align = 256;
  std::vector<Guard> guards;
};

// Where an expression of a record stands: each place has its own rules in a DETERMINISTIC kernel.
enum class ExprPlace : std::uint8_t {
  kGrid,
  kGeometry /* block, cluster, shared bytes */,
  kPointer,
  kInteger,
  kFloat,
  kTensorMap,
  kMemset,
  kWorkspace,
  kGuard,
};
// Calls `visit` for every non-empty expression (of pointer values: the text as written), with a
// name for messages such as "step 0: grid[1]". Stops at the first error and returns it.
using ExprVisitor =
    std::function<Status(ExprPlace place, const std::string& text, const std::string& where)>;
Status visit_expressions(const LaunchRecord& record, const ExprVisitor& visit);

}  // namespace opforge
