// Preconditions of a kernel over the caller's context and every argument: cheap, pure, in order. The first that fails
// makes the call Unavailable with its reason.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "contract/support.hpp"
#include "tensor/view.hpp"

namespace opforge {

enum class PreconditionKind : std::uint8_t {
  kLockstepRanks,   // all ranks take this call together (caller's context says so)
  kNotCapturing,    // the stream is not being captured into a graph
  kAlignment,       // every tensor's data is aligned to `value` bytes
  kDTypeIn,         // every floating tensor's dtype is in `dtypes`
  kMinLeadingDim,   // the product of all but the last dim of every tensor of rank >= 2 is at least `value`
};

struct Precondition {
  PreconditionKind kind;
  std::int64_t value = 0;
  std::vector<DType> dtypes;
};

// What the caller knows and the runtime cannot find out.
struct CallerFacts {
  bool lockstep = false;
  int rank = 0;
  int world_size = 1;
  bool capturing = false;  // filled by the runtime from the stream
  // The caller's own precondition; an empty function is always met.
  std::function<Support(std::span<const TensorView>)> user;
};

Support check_preconditions(std::span<const Precondition> preconditions, std::span<const TensorView> tensors,
                            const CallerFacts& facts);

}  // namespace opforge
