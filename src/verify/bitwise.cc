#include "verify/bitwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/timer.hpp"

namespace opforge {
namespace {

using Bits = std::vector<std::string>;

class BitwiseTrial {
 public:
  BitwiseTrial(LoadedSubject& subject, const Operator& op, TrialMemory& memory, Bits base)
      : subject_(subject), op_(op), memory_(memory), base_(std::move(base)) {}

  // Each returns what differs, empty when nothing does.
  Result<std::string> repeated() {
    for (int i = 0; i < 3; ++i) OPFORGE_TRY(run_again("when run again", nullptr, 0));
    return different_;
  }

  Result<std::string> streams() {
    Timer* timer = subject_.api().timer();
    if (timer == nullptr) return different_;
    const int ordinal = subject_.device().device.ordinal;
    for (int i = 0; i < 2; ++i) {
      auto stream = timer->make_stream(ordinal);
      if (!stream)
        return stream.error().code == Code::kUnavailable ? Result<std::string>(different_)
                                                         : fail(stream.error());
      const Status status = run_again("in another stream", *stream, 0);
      timer->release_stream(ordinal, *stream);
      OPFORGE_TRY(status);
    }
    return different_;
  }

  Result<std::string> threads_and_chunks() {
    if (subject_.device().device.kind != DeviceKind::kCpu) return different_;
    for (const std::int64_t items : {1, 2, 5, 64, 1 << 30}) {
      OPFORGE_TRY(run_again(fmt::format("in chunks of at least {} items", items), nullptr, items));
    }
    Timer* timer = subject_.api().timer();
    if (timer == nullptr) return different_;
    for (const int threads : {1, 2, 3, 4, 7}) {
      if (threads > subject_.device().sm_count) break;
      if (!timer->limit_threads(threads)) return different_;
      const Status status = run_again(fmt::format("on {} threads", threads), nullptr, 1);
      (void)timer->limit_threads(0);
      OPFORGE_TRY(status);
    }
    return different_;
  }

  Result<std::string> layouts() {
    for (const Layout layout :
         {Layout::kMisaligned, Layout::kOffset, Layout::kPaddedRows, Layout::kPaddedAligned,
          Layout::kEverySecond, Layout::kTransposed, Layout::kReversedRows}) {
      OPFORGE_TRY(
          compare_rearranged(layout, {}, {}, fmt::format("in the layout {}", layout_name(layout))));
    }
    return different_;
  }

  Result<std::string> rows(const std::string& symbol) {
    const auto found = memory_.trial().dims.find(symbol);
    const auto* extent =
        found == memory_.trial().dims.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    if (extent == nullptr || *extent == 0) return different_;
    const std::int64_t n = *extent;
    std::vector<std::int64_t> turned, among, many;
    for (std::int64_t i = 0; i < n; ++i) turned.push_back((2 * n - 1 - i + n / 3) % n);
    for (std::int64_t i = 0; i < n; i += 2) among.insert(among.end(), {-1, i, -1, -1});
    const std::int64_t elements = std::max<std::int64_t>(memory_elements() / n, 1);
    const std::int64_t count =
        std::clamp<std::int64_t>((std::int64_t{1} << 21) / elements, n + 3, 70001);
    for (std::int64_t i = 0; i < count; ++i) many.push_back(i % n);
    OPFORGE_TRY(compare_rearranged(Layout::kContiguous, symbol, turned,
                                   fmt::format("when {} is in another order", symbol)));
    OPFORGE_TRY(compare_rearranged(Layout::kContiguous, symbol, among,
                                   fmt::format("with other neighbours along {}", symbol)));
    OPFORGE_TRY(compare_rearranged(Layout::kContiguous, symbol, many,
                                   fmt::format("when {} is {} instead of {}", symbol, count, n)));
    for (const std::int64_t row : {std::int64_t{0}, n / 2, n - 1}) {
      const std::vector<std::int64_t> one{row};
      OPFORGE_TRY(compare_rearranged(Layout::kContiguous, symbol, one,
                                     fmt::format("when {} is 1 instead of {}", symbol, n)));
    }
    return different_;
  }

 private:
  std::int64_t memory_elements() const {
    std::int64_t most = 1;
    for (const TensorView& view : memory_.views()) {
      if (view.present()) most = std::max(most, view.element_count());
    }
    return most;
  }

  std::vector<std::size_t> outputs() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < op_.signature.tensors.size(); ++i) {
      if (op_.signature.tensors[i].access != Access::kRead && memory_.tensors()[i].present())
        out.push_back(i);
    }
    return out;
  }

  void note(std::size_t tensor, const std::string& how) {
    if (different_.empty())
      different_ = fmt::format("{} has other bits {}", op_.signature.tensors[tensor].name, how);
  }

  Status run_again(const std::string& how, StreamHandle stream, std::int64_t least_items) {
    if (!different_.empty()) return {};
    OPFORGE_ASSIGN(const Bits now, output_bits(subject_, memory_, stream, least_items));
    const auto which = outputs();
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] != base_[i]) note(which[i], how);
    }
    return {};
  }

  // A refusal of the other arguments is fine: then nothing was computed that could differ.
  Status compare_rearranged(Layout layout, const std::string& symbol,
                            std::span<const std::int64_t> rows, const std::string& how) {
    if (!different_.empty()) return {};
    auto other = memory_.rearranged(layout, symbol, rows);
    if (!other) return other.error().code == Code::kUnavailable ? Status{} : fail(other.error());
    const auto now = output_bits(subject_, *other);
    if (!now) return now.error().code == Code::kUnavailable ? Status{} : fail(now.error());
    const auto which = outputs();
    for (std::size_t i = 0; i < now->size(); ++i) {
      const int axis = symbol.empty() ? -1 : axis_of(op_.signature.tensors[which[i]], symbol);
      if (!same_rows(which[i], axis, rows, base_[i], (*now)[i])) note(which[i], how);
    }
    return {};
  }

  bool same_rows(std::size_t tensor, int axis, std::span<const std::int64_t> rows,
                 const std::string& base, const std::string& now) const {
    if (axis < 0) return base == now;
    const std::vector<std::int64_t>& dims = memory_.tensors()[tensor].dims();
    std::size_t outer = 1, inner = itemsize(memory_.views()[tensor].dtype);
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      if (i < axis) outer *= static_cast<std::size_t>(dims[static_cast<std::size_t>(i)]);
      if (i > axis) inner *= static_cast<std::size_t>(dims[static_cast<std::size_t>(i)]);
    }
    const auto extent = static_cast<std::size_t>(dims[static_cast<std::size_t>(axis)]);
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (rows[r] < 0) continue;
        const std::size_t from = (o * extent + static_cast<std::size_t>(rows[r])) * inner,
                          to = (o * rows.size() + r) * inner;
        if (base.compare(from, inner, now, to, inner) != 0) return false;
      }
    }
    return true;
  }

  LoadedSubject& subject_;
  const Operator& op_;
  TrialMemory& memory_;
  Bits base_;
  std::string different_;
};

}  // namespace

Result<std::vector<std::string>> output_bits(LoadedSubject& subject, TrialMemory& memory,
                                             StreamHandle stream, std::int64_t least_items) {
  OPFORGE_ASSIGN(const LoadedSubject::Planned planned,
                 subject.plan(memory.views(), memory.trial().attributes, least_items));
  if (!planned.plan) return fail(Code::kUnavailable, planned.refused, "verify");
  OPFORGE_TRY(memory.reset());
  OPFORGE_TRY(subject.run(*planned.plan, memory.data(), stream));
  Bits out;
  for (std::size_t i = 0; i < memory.tensors().size(); ++i) {
    if (subject.signature().tensors[i].access == Access::kRead || !memory.tensors()[i].present())
      continue;
    OPFORGE_ASSIGN(std::string bits, memory.tensors()[i].bits());
    out.push_back(std::move(bits));
  }
  return out;
}

Result<std::string> bitwise_difference(LoadedSubject& subject, const Operator& op,
                                       const Trial& trial) {
  OPFORGE_ASSIGN(TrialMemory memory,
                 TrialMemory::make(op, trial, subject.api(), subject.device().device));
  OPFORGE_ASSIGN(Bits base, output_bits(subject, memory));
  BitwiseTrial bitwise(subject, op, memory, std::move(base));
  std::vector<std::function<Result<std::string>()>> parts{
      [&] { return bitwise.repeated(); }, [&] { return bitwise.streams(); },
      [&] { return bitwise.threads_and_chunks(); }, [&] { return bitwise.layouts(); }};
  for (const std::string& symbol : batch_symbols(op.signature)) {
    parts.emplace_back([&, symbol] { return bitwise.rows(symbol); });
  }
  for (const auto& part : parts) {
    OPFORGE_ASSIGN(const std::string different, part());
    if (!different.empty()) return different;
  }
  return std::string();
}

}  // namespace opforge
