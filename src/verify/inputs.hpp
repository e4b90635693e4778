// Trials: which shape, values and layout a kernel is tried with, and the guarded memory that holds them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operator/operator.hpp"
#include "runtime/launcher.hpp"

namespace opforge {

// A small, fast, seeded generator (splitmix64), so that trials repeat on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                  // [0, 1)
  double normal();                   // mean 0, deviation 1 (sum of uniforms, |x| < 6: no libm)
  std::int64_t below(std::int64_t n);  // [0, n)

 private:
  std::uint64_t state_;
};

// How the views of a trial lie in memory. Every layout that a kernel refuses by a guard is right; every one that it takes
// must give right results.
enum class Layout : std::uint8_t {
  kContiguous,
  kOffset,        // contiguous, starting 64 bytes into the buffer
  kMisaligned,    // contiguous, starting one element after an aligned address
  kPaddedRows,    // rows further apart than their length (odd stride)
  kEverySecond,   // last dim with stride 2
  kTransposed,    // first dim fastest
  kReversedRows,  // negative stride in the first dim
  kReversedLast,  // negative stride in the last dim
  kBroadcastRows, // zero stride in the first dim of inputs of rank >= 2
  kBroadcastLast, // zero stride in the last dim of inputs
  kLeading,       // a "...M" dim given as two dims of the caller's tensor
  kLeadingGapped, // the same, with a gap that keeps them from collapsing
};
std::string_view layout_name(Layout layout);

// Values of a trial.
enum class Data : std::uint8_t {
  kOrdinary,      // as the declaration's fills say
  kOneNaN,        // ordinary, one NaN at a random place of each floating input in turn
  kOneInfinity,   // the same with +inf
  kNegInfinity,   // the same with -inf
  kBothInfinities,
  kAllNaN,
  kLargeSquares,  // magnitudes whose squares overflow the dtype (f16: 300 and up); sums stay within fp32
  kCancellation,  // large values that cancel pairwise within a row, small ones left over
  kLargeMean,     // 100 + i/1000: a mean far above the spread
  kTiny,          // around the smallest normal value, subnormals among them
  kConstant,      // one value everywhere
  kWideRange,     // magnitudes from 1e-4 to 1e4
  kZeros,         // also negative zeros
};
std::string_view data_name(Data data);

struct Trial {
  std::string name;              // "M=33,N=257 T=bf16 misaligned nan": unique in a suite
  ValueMap dims, attributes;
  DTypeCombo dtypes;
  Layout layout = Layout::kContiguous;
  Data data = Data::kOrdinary;
  std::set<std::string> absent;  // optional tensors left out
  std::string alias;             // output that is given the memory of an input it may alias; empty: none
  std::string alias_input;
  std::uint64_t seed = 0;
  bool tiled = false;            // huge: values repeat with a prime period, so that filling is fast
};

// A tensor in guarded device memory: a canary before and after, poison in gaps between strided elements, outputs poisoned.
// The host keeps an image of what was put there.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  GuardedTensor(GuardedTensor&&) noexcept;
  GuardedTensor& operator=(GuardedTensor&&) noexcept;
  ~GuardedTensor();

  const TensorView& view() const { return view_; }                   // as the caller passes it
  const std::vector<std::int64_t>& dims() const { return dims_; }    // declared dims (leading dims collapsed)
  // Element values in row-major order of the declared dims, as they were put (rounded to the dtype).
  std::vector<double> initial() const;
  // Read back from the device.
  Result<std::vector<double>> values() const;
  Result<std::string> bits() const;                                  // the elements' bytes, row-major, gaps left out
  // Put the initial image again (inputs) or poison of pattern `which` (outputs).
  Status reset(int which);
  // Canaries, gaps and (for inputs) values are as they were put; the message names what changed and where.
  Status unchanged(bool values_too) const;
  // Elements that still hold the poison of the last reset, bit for bit; outputs only.
  Result<std::int64_t> still_poisoned() const;

 private:
  friend class TrialMemory;
  struct State;
  TensorView view_ = TensorView::absent();
  std::vector<std::int64_t> dims_;
  std::unique_ptr<State> state_;
};

// All tensors of a trial on a device, in signature order.
class TrialMemory {
 public:
  // kUnavailable with the reason when the trial has no meaning for this operator (layout without effect, rank too small);
  // kOutOfMemory when the device has too little.
  static Result<TrialMemory> make(const Operator& op, const Trial& trial, DeviceApi& api, Device device);

  std::span<GuardedTensor> tensors() { return tensors_; }
  std::span<const TensorView> views() const { return views_; }
  // Everything as at the start, outputs poisoned with pattern `which` (0: all bits set; 1: a large finite value).
  Status reset(int which = 0);
  // Run the double reference over these inputs. `rows` of the batch symbol `symbol` only, when not empty.
  Result<ReferenceCall> reference(const Operator& op, std::string_view symbol = {},
                                  std::span<const std::int64_t> rows = {}) const;

 private:
  Trial trial_;
  std::vector<GuardedTensor> tensors_;
  std::vector<TensorView> views_;
};

// A dim that can be cut without changing what an element of the output is: declared by name in every output, alone ("M",
// "...M"), and not reduced. Empty when there is none.
std::string batch_symbol(const Signature& signature);
std::vector<std::string> batch_symbols(const Signature& signature);

// A seed for a trial, from the digest of the code under trial and the trial's name.
std::uint64_t trial_seed(const Digest& code_digest, std::string_view trial_name, std::uint64_t salt = 0);

}  // namespace opforge
