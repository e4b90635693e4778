// Building the tensors of a trial, and running the reference over them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "operator/expression.hpp"
#include "verify/guarded_state.hpp"
#include "verify/values.hpp"

namespace opforge {
namespace {

constexpr std::size_t kCanaryBytes = 4096;
constexpr std::size_t kAlign = 256;
constexpr std::int64_t kTileElements = 1048573;  // prime: a wrong row or offset meets other values

Result<std::vector<std::int64_t>> evaluate_dims(const Operator& op, const TensorArg& arg,
                                                const Trial& trial) {
  std::vector<std::int64_t> out;
  ValueMap symbols = trial.attributes;
  for (const AttrArg& attribute : op.signature.attributes) {
    if (attribute.default_value) symbols.try_emplace(attribute.name, *attribute.default_value);
  }
  for (const auto& [symbol, extent] : trial.dims) symbols[symbol] = extent;
  for (const std::string& text : arg.dims) {
    const std::string_view bare =
        std::string_view(text).starts_with("...") ? std::string_view(text).substr(3) : text;
    OPFORGE_ASSIGN(const Expression expression, Expression::parse(bare));
    OPFORGE_ASSIGN(const std::int64_t extent, expression.evaluate_int(lookup_in(symbols)));
    out.push_back(extent);
  }
  return out;
}

Result<DType> dtype_of(const TensorArg& arg, const DTypeCombo& combo) {
  if (const auto found = combo.find(arg.dtype); found != combo.end()) return found->second;
  return parse_dtype(arg.dtype);
}

Code no_meaning() { return Code::kUnavailable; }

}  // namespace

// How one tensor of a trial lies in memory.
struct TensorBuilder {
  const Trial& trial;
  const TensorArg& arg;
  int index;  // in the signature: neighbours get other strides
  TensorView view;
  std::int64_t lead_elements = 0;
  bool changed = false;  // the layout did something to this tensor

  bool input() const { return arg.access == Access::kRead; }

  bool concerned() const {
    return trial.laid_out == LaidOut::kAll || (trial.laid_out == LaidOut::kInputs) == input();
  }

  void dense() {
    std::int64_t stride = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      view.strides[axis] = stride;
      stride *= std::max<std::int64_t>(view.dims[axis], 1);
    }
  }

  void scale_strides_before(
      int axis, std::int64_t row) {  // strides of the dims before `axis`, from the row length `row`
    for (int i = axis - 1; i >= 0; --i) {
      view.strides[i] = row;
      row *= std::max<std::int64_t>(view.dims[i], 1);
    }
  }

  // Split the collapsed leading dim in two, the outer one `gap` elements further apart than it need
  // be.
  void split_leading(std::int64_t gap) {
    if (arg.dims.empty() || !arg.dims.front().starts_with("...") || view.rank + 1 > kMaxRank)
      return;
    const std::int64_t rows = view.dims[0];
    const std::int64_t inner = rows > 0 && rows % 3 == 0 ? 3 : (rows > 0 && rows % 2 == 0 ? 2 : 1);
    for (int i = view.rank; i > 0; --i) {
      view.dims[i] = view.dims[i - 1];
      view.strides[i] = view.strides[i - 1];
    }
    ++view.rank;
    view.dims[1] = inner;
    view.dims[0] = rows / inner;
    view.strides[0] = view.strides[1] * inner + gap;
    changed = inner > 1 || gap == 0;
  }

  void reverse(int axis) {
    view.strides[axis] = -view.strides[axis];
    changed = view.dims[axis] > 1;
  }

  void lay_out() {
    dense();
    if (!concerned()) return;
    const int last = view.rank - 1;
    switch (trial.layout) {
      case Layout::kContiguous:
        changed = true;
        break;
      case Layout::kOffset:
        lead_elements = 64 / static_cast<std::int64_t>(itemsize(view.dtype)), changed = true;
        break;
      case Layout::kMisaligned:
        lead_elements = 1, changed = true;
        break;
      case Layout::kPaddedRows:
        if (view.rank >= 2)
          scale_strides_before(last, view.dims[last] + 1 + 2 * index), changed = true;
        break;
      case Layout::kPaddedAligned:
        if (view.rank >= 2)
          scale_strides_before(last, (view.dims[last] + 63) / 64 * 64 + 64 * (1 + index)),
              changed = true;
        break;
      case Layout::kEverySecond:
        if (view.rank >= 1) {
          view.strides[last] = 2 + index % 2;
          scale_strides_before(last,
                               view.strides[last] * std::max<std::int64_t>(view.dims[last], 1));
          changed = view.dims[last] > 1;
        }
        break;
      case Layout::kTransposed:
        if (view.rank >= 2) {
          std::int64_t stride = 1;
          for (int axis = 0; axis < view.rank; ++axis) {
            view.strides[axis] = stride;
            stride *= std::max<std::int64_t>(view.dims[axis], 1);
          }
          changed = view.dims[0] > 1 && view.dims[last] > 1;
        }
        break;
      case Layout::kReversedRows:
        if (view.rank >= 2) reverse(0);
        break;
      case Layout::kReversedLast:
        if (view.rank >= 1) reverse(last);
        break;
      case Layout::kBroadcastRows:
        if (input() && view.rank >= 2) view.strides[0] = 0, changed = view.dims[0] > 1;
        break;
      case Layout::kBroadcastLast:
        if (input() && view.rank >= 1) view.strides[last] = 0, changed = view.dims[last] > 1;
        break;
      case Layout::kLeading:
        split_leading(0);
        break;
      case Layout::kLeadingGapped:
        split_leading(5);
        break;
    }
  }

  Status allocate(GuardedTensor& tensor, DeviceApi& api, int ordinal);
  void fill(GuardedTensor& tensor, const Operator& op, std::int64_t reduced);
};

Status TensorBuilder::allocate(GuardedTensor& tensor, DeviceApi& api, int ordinal) {
  tensor.state_ = std::make_shared<GuardedTensor::State>();
  GuardedTensor::State& s = *tensor.state_;
  const auto size = static_cast<std::int64_t>(itemsize(view.dtype));
  std::int64_t low = 0, high = 0;  // elements touched, relative to [0, ..., 0]
  if (view.element_count() > 0) {
    for (int axis = 0; axis < view.rank; ++axis) {
      const std::int64_t reach = (view.dims[axis] - 1) * view.strides[axis];
      (reach < 0 ? low : high) += reach;
    }
    ++high;
  }
  // Element [0, ..., 0] is what must be aligned, whatever lies before it.
  const std::size_t before = (static_cast<std::size_t>(-low * size) + kAlign - 1) / kAlign * kAlign;
  s.api = &api;
  s.ordinal = ordinal;
  const std::size_t lead = static_cast<std::size_t>(lead_elements * size);
  s.allocation_bytes =
      kAlign + kCanaryBytes + before + lead + static_cast<std::size_t>(high * size) + kCanaryBytes;
  OPFORGE_ASSIGN(s.allocation, api.allocate(ordinal, s.allocation_bytes, nullptr));
  const std::size_t skew =
      (kAlign - reinterpret_cast<std::uintptr_t>(s.allocation) % kAlign) % kAlign;
  s.data_at = skew + kCanaryBytes + before + lead;
  view.data = s.at(s.data_at);
  s.view = view;
  return {};
}

void TensorBuilder::fill(GuardedTensor& tensor, const Operator& op, std::int64_t reduced) {
  GuardedTensor::State& s = *tensor.state_;
  s.canary = (trial.seed >> 7) % 2 == 0 ? 0xff : 0x7b;
  s.whole_output = arg.access == Access::kWrite;
  s.written = arg.access != Access::kRead;
  FillRequest request;
  request.dtype = view.dtype;
  request.elements =
      trial.tiled ? std::min(kTileElements, view.element_count()) : view.element_count();
  request.row_elements = s.dims.empty() ? 1 : s.dims.back();
  request.reduced_elements = reduced;
  if (const auto found = op.fills.find(arg.name); found != op.fills.end())
    request.fill = found->second;
  if (trial.data_tensor == arg.name) request.data = trial.data;
  Fingerprint print;
  request.seed = trial_seed(print.add("tensor", arg.name).finish(), trial.name, trial.seed);
  std::string values = s.whole_output ? std::string() : make_values(request);
  if (trial.tiled && view.element_count() > 0) {
    s.tile = s.whole_output ? std::string(1, '\0') : std::move(values);
    return;
  }
  s.image.assign(s.allocation_bytes, static_cast<char>(s.canary));
  const std::size_t size = itemsize(view.dtype);
  if (s.whole_output) return;
  for_each_element(view, [&](std::int64_t i, std::int64_t offset) {
    values.copy(s.image.data() + static_cast<std::int64_t>(s.data_at) + offset, size,
                static_cast<std::size_t>(i) * size);
  });
}

namespace {

// The floating input with the most elements, which hostile values go to unless the trial says
// otherwise.
std::string main_input(const Operator& op, const Trial& trial) {
  std::string best;
  std::int64_t most = -1;
  for (const TensorArg& arg : op.signature.tensors) {
    if (arg.access == Access::kWrite || trial.absent.contains(arg.name)) continue;
    const auto dims = evaluate_dims(op, arg, trial);
    const auto dtype = dtype_of(arg, trial.dtypes);
    if (!dims || !dtype || !is_floating(*dtype)) continue;
    std::int64_t count = 1;
    for (const std::int64_t dim : *dims) count *= dim;
    if (count > most) most = count, best = arg.name;
  }
  return best;
}

std::int64_t reduced_elements(const Operator& op, const Trial& trial) {
  std::int64_t product = 1;
  for (const std::string& symbol : op.signature.reduced_dims) {
    const auto found = trial.dims.find(symbol);
    if (found == trial.dims.end()) continue;
    if (const auto* extent = std::get_if<std::int64_t>(&found->second))
      product *= std::max<std::int64_t>(*extent, 1);
  }
  return product;
}

}  // namespace

Result<TrialMemory> TrialMemory::make(const Operator& op, const Trial& asked, DeviceApi& api,
                                      Device device) {
  TrialMemory out;
  out.op_ = &op;
  out.api_ = &api;
  out.device_ = device;
  out.trial_ = asked;
  Trial& trial = out.trial_;
  trial.tiled = trial.tiled && trial.layout == Layout::kContiguous;  // a tile is repeated densely
  if (trial.data_tensor.empty()) trial.data_tensor = main_input(op, trial);
  const auto& args = op.signature.tensors;
  out.tensors_.resize(args.size());
  bool changed = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (trial.absent.contains(args[i].name) || args[i].name == trial.alias) continue;
    TensorBuilder builder{trial, args[i], static_cast<int>(i), {}};
    OPFORGE_ASSIGN(std::vector<std::int64_t> dims, evaluate_dims(op, args[i], trial));
    OPFORGE_ASSIGN(const DType dtype, dtype_of(args[i], trial.dtypes));
    builder.view = TensorView::contiguous(nullptr, dtype, dims, device);
    builder.lay_out();
    changed = changed || builder.changed;
    OPFORGE_TRY(builder.allocate(out.tensors_[i], api, device.ordinal));
    out.tensors_[i].state_->dims = std::move(dims);
    builder.fill(out.tensors_[i], op, reduced_elements(op, trial));
  }
  if (!changed) {
    return fail(no_meaning(),
                fmt::format("layout {} changes nothing here", layout_name(trial.layout)), "verify");
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (trial.alias.empty() || args[i].name != trial.alias) continue;
    for (std::size_t j = 0; j < args.size(); ++j) {
      if (args[j].name != trial.alias_input || !out.tensors_[j].state_) continue;
      OPFORGE_ASSIGN(const DType dtype, dtype_of(args[i], trial.dtypes));
      OPFORGE_ASSIGN(const std::vector<std::int64_t> dims, evaluate_dims(op, args[i], trial));
      if (dtype != out.tensors_[j].view().dtype || dims != out.tensors_[j].dims()) {
        return fail(
            no_meaning(),
            fmt::format("{} and {} differ in dtype or dims", trial.alias, trial.alias_input),
            "verify");
      }
      out.tensors_[i].state_ = out.tensors_[j].state_;
      out.tensors_[i].state_->written = true;
      out.tensors_[i].borrowed_ = true;
    }
  }
  for (const GuardedTensor& tensor : out.tensors_) out.views_.push_back(tensor.view());
  OPFORGE_TRY(out.reset());
  return out;
}

Result<TrialMemory> TrialMemory::rearranged(Layout layout, std::string_view symbol,
                                            std::span<const std::int64_t> rows) const {
  Trial trial = trial_;
  trial.layout = layout;
  trial.seed += 1 + rows.size();  // for the rows that are new
  if (!symbol.empty()) trial.dims[std::string(symbol)] = static_cast<std::int64_t>(rows.size());
  OPFORGE_ASSIGN(TrialMemory out, make(*op_, trial, *api_, device_));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!out.tensors_[i].present() || out.tensors_[i].borrowed_ ||
        out.tensors_[i].state_->whole_output)
      continue;
    const int axis = symbol.empty() ? -1 : axis_of(op_->signature.tensors[i], symbol);
    const GuardedTensor::State& from = *tensors_[i].state_;
    GuardedTensor::State& to = *out.tensors_[i].state_;
    if (from.tiled() || to.tiled())
      return fail(Code::kInternal, "tiled tensors cannot be rearranged", "verify");
    std::vector<std::int64_t> source;  // byte offset in `from` of each element of it, row-major
    for_each_element(from.view,
                     [&](std::int64_t, std::int64_t offset) { source.push_back(offset); });
    std::int64_t inner = 1;
    for (std::size_t d = static_cast<std::size_t>(axis + 1); d < to.dims.size(); ++d)
      inner *= to.dims[d];
    const std::size_t size = to.element_bytes();
    for_each_element(to.view, [&](std::int64_t e, std::int64_t offset) {
      std::int64_t old = e;
      if (axis >= 0) {
        const auto row =
            static_cast<std::size_t>(e / inner % to.dims[static_cast<std::size_t>(axis)]);
        if (rows[row] < 0) return;
        const std::int64_t outer = e / inner / to.dims[static_cast<std::size_t>(axis)];
        old = (outer * from.dims[static_cast<std::size_t>(axis)] + rows[row]) * inner + e % inner;
      }
      from.image.copy(
          to.image.data() + static_cast<std::int64_t>(to.data_at) + offset, size,
          from.data_at + static_cast<std::size_t>(source[static_cast<std::size_t>(old)]));
    });
  }
  OPFORGE_TRY(out.reset());
  return out;
}

std::vector<void*> TrialMemory::data() const {
  std::vector<void*> out;
  for (const TensorView& view : views_) out.push_back(view.present() ? view.data : nullptr);
  return out;
}

Status TrialMemory::reset(int which) {
  for (GuardedTensor& tensor : tensors_) OPFORGE_TRY(tensor.reset(which));
  return {};
}

Status TrialMemory::unchanged() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (auto status = tensors_[i].unchanged(); !status) {
      Error error = status.error();
      error.message = fmt::format("{}: {}", op_->signature.tensors[i].name, error.message);
      return fail(std::move(error));
    }
  }
  return {};
}

Rows TrialMemory::rows_of(std::size_t index, std::string_view symbol,
                          std::span<const std::int64_t> rows) const {
  if (symbol.empty()) return {};
  return {axis_of(op_->signature.tensors[index], symbol), rows};
}

Result<ReferenceCall> TrialMemory::reference(std::string_view symbol,
                                             std::span<const std::int64_t> rows) const {
  ReferenceCall call;
  call.dims = trial_.dims;
  if (!symbol.empty()) call.dims[std::string(symbol)] = static_cast<std::int64_t>(rows.size());
  for (const AttrArg& attribute : op_->signature.attributes) {
    if (attribute.default_value) call.attributes[attribute.name] = *attribute.default_value;
  }
  for (const auto& [name, value] : trial_.attributes) call.attributes[name] = value;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorArg& arg = op_->signature.tensors[i];
    ReferenceTensor& to = call.tensors[arg.name];
    to.present = tensors_[i].present();
    if (!to.present) continue;
    to.dims = tensors_[i].dims();
    const Rows part = rows_of(i, symbol, rows);
    if (part.axis >= 0)
      to.dims[static_cast<std::size_t>(part.axis)] = static_cast<std::int64_t>(rows.size());
    if (arg.access == Access::kWrite) {
      std::int64_t count = 1;
      for (const std::int64_t dim : to.dims) count *= dim;
      to.values.assign(static_cast<std::size_t>(count), std::numeric_limits<double>::quiet_NaN());
    } else {
      to.values = tensors_[i].initial(part);
    }
  }
  if (op_->reference == nullptr) {
    return fail(Code::kInvalidDeclaration,
                op_->signature.name + " has no reference to be judged against", "verify");
  }
  op_->reference(call);
  return call;
}

}  // namespace opforge
