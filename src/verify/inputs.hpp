// Trials: which shape, values and layout a kernel is tried with, and the guarded memory that holds
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
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
  double uniform();                    // [0, 1)
  double normal();                     // mean 0, deviation 1 (sum of uniforms, |x| < 6: no libm)
  std::int64_t below(std::int64_t n);  // [0, n)

 private:
  std::uint64_t state_;
};

// How the views of a trial lie in memory. Every layout that a kernel refuses by a guard is right;
// every one that it takes must give right results.
enum class Layout : std::uint8_t {
  kContiguous,
  kOffset,         // contiguous, starting 64 bytes into the buffer
  kMisaligned,     // contiguous, starting one element after an aligned address
  kPaddedRows,     // rows further apart than their length (odd stride)
  kPaddedAligned,  // the same with a stride that keeps every row aligned
  kEverySecond,    // last dim with stride 2
  kTransposed,     // first dim fastest
  kReversedRows,   // negative stride in the first dim
  kReversedLast,   // negative stride in the last dim
  kBroadcastRows,  // zero stride in the first dim of inputs of rank >= 2
  kBroadcastLast,  // zero stride in the last dim of inputs
  kLeading,        // a "...M" dim given as two dims of the caller's tensor
  kLeadingGapped,  // the same, with a gap that keeps them from collapsing
};
std::string_view layout_name(Layout layout);

// Values of a trial. Hostile values are for floating tensors only.
enum class Data : std::uint8_t {
  kOrdinary,     // as the declaration's fills say
  kOneNaN,       // ordinary, one NaN at a random place
  kOneInfinity,  // the same with +inf
  kNegInfinity,  // the same with -inf
  kBothInfinities,
  kAllNaN,
  kLargeSquares,  // magnitudes whose squares overflow the dtype (f16: 300 and up); sums stay within
                  // fp32
  kHugeSquares,   // squares overflow fp32 as well, plain sums do not
  kCancellation,  // large values that cancel pairwise within a row, small ones left over
  kLargeMean,     // 100 + i/1000: a mean far above the spread
  kTiny,          // around the smallest normal value, subnormals among them
  kConstant,      // one value everywhere
  kWideRange,     // magnitudes from 1e-4 to 1e4
  kZeros,         // also negative zeros
};
std::string_view data_name(Data data);

// Which tensors a layout is given to.
enum class LaidOut : std::uint8_t { kAll, kInputs, kOutputs };

struct Trial {
  std::string name;           // "M=33 N=257 misaligned nan:x": unique in a suite
  ValueMap dims, attributes;  // every symbol's extent; attributes that differ from the defaults
  DTypeCombo dtypes;
  Layout layout = Layout::kContiguous;
  LaidOut laid_out = LaidOut::kAll;
  Data data = Data::kOrdinary;
  std::string data_tensor;  // the input that gets `data`, the others ordinary values; empty: the
                            // largest floating one
  std::set<std::string> absent;  // optional tensors left out
  std::string alias;             // output that is given the memory of `alias_input`; empty: none
  std::string alias_input;
  std::uint64_t seed = 0;
  bool tiled = false;  // large: values repeat with a prime period, so that filling is fast
};

// Some rows along one axis; axis < 0: everything.
struct Rows {
  int axis = -1;
  std::span<const std::int64_t> at;
};

// A tensor in guarded device memory: a canary before and after, canary bytes in the gaps between
// strided elements, outputs poisoned. The host knows what was put there.
class GuardedTensor {
 public:
  GuardedTensor();
  GuardedTensor(GuardedTensor&&) noexcept;
  GuardedTensor& operator=(GuardedTensor&&) noexcept;
  ~GuardedTensor();

  const TensorView& view() const;                 // as the caller passes it
  const std::vector<std::int64_t>& dims() const;  // declared dims (leading dims collapsed)
  bool present() const { return view().present(); }
  // Element values in row-major order of the declared dims: as they were put (rounded to the
  // dtype), or now.
  std::vector<double> initial(Rows rows = {}) const;
  Result<std::vector<double>> values(Rows rows = {}) const;
  // The elements' bytes now, in the same order; gaps left out.
  Result<std::string> bits(Rows rows = {}) const;
  // Inputs: the initial values again. Outputs: every element gets poison `which` (0: all bits set,
  // which is NaN for floating dtypes; 1: 0x7b in every byte, a large finite value).
  Status reset(int which = 0);
  // Canaries, gaps and (for what is only read) values are as they were put; the message names what
  // changed and where.
  Status unchanged() const;
  // How many elements still hold the poison of the last reset, bit for bit, in every byte. Outputs
  // only.
  Result<std::int64_t> still_poisoned() const;

 private:
  friend class TrialMemory;
  friend struct TensorBuilder;
  struct State;
  std::shared_ptr<State> state_;  // shared by an output and the input whose memory it was given
  bool borrowed_ = false;         // the memory belongs to another tensor of the trial
};

// All tensors of a trial on a device, in signature order.
class TrialMemory {
 public:
  // kUnavailable with the reason when the trial has no meaning for this operator (a layout that
  // changes nothing, a tensor of too low rank); kOutOfMemory when the device has too little.
  static Result<TrialMemory> make(const Operator& op, const Trial& trial, DeviceApi& api,
                                  Device device);

  // Other memory with the same values in another layout; of a batch symbol only `rows` of them, in
  // that order, where -1 is a row of fresh random values. An empty symbol: everything.
  Result<TrialMemory> rearranged(Layout layout, std::string_view symbol,
                                 std::span<const std::int64_t> rows) const;

  std::span<GuardedTensor> tensors() { return tensors_; }
  std::span<const GuardedTensor> tensors() const { return tensors_; }
  std::span<const TensorView> views() const { return views_; }
  std::vector<void*> data() const;  // pointers in signature order, null when absent
  const Trial& trial() const { return trial_; }
  Status reset(int which = 0);  // everything as at the start
  Status unchanged() const;     // of all tensors
  // Run the double reference over these inputs: all of them, or `rows` of a batch symbol only.
  Result<ReferenceCall> reference(std::string_view symbol = {},
                                  std::span<const std::int64_t> rows = {}) const;
  // Which rows of tensor `index` those are.
  Rows rows_of(std::size_t index, std::string_view symbol,
               std::span<const std::int64_t> rows) const;

 private:
  const Operator* op_ = nullptr;
  DeviceApi* api_ = nullptr;
  Device device_;
  Trial trial_;
  std::vector<GuardedTensor> tensors_;
  std::vector<TensorView> views_;
};

// The symbol when `dim` is one ("M", "...M"), else empty.
std::string plain_symbol(std::string_view dim);
// Which of the declared dims of `arg` is `symbol` alone; -1: none.
int axis_of(const TensorArg& arg, std::string_view symbol);

// A dim that can be cut without changing what an element of the output is: declared by name in
// every output, alone ("M",
// "...M"), and not reduced. Empty when there is none.
std::string batch_symbol(const Signature& signature);
std::vector<std::string> batch_symbols(const Signature& signature);

// A seed for a trial, from the digest of the code under trial and the trial's name.
std::uint64_t trial_seed(const Digest& code_digest, std::string_view trial_name,
                         std::uint64_t salt = 0);

}  // namespace opforge
