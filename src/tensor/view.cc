#include "tensor/view.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace opforge {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

bool is_empty(const TensorView& view) {
  for (int i = 0; i < view.rank; ++i) {
    if (view.dims[i] == 0) return true;
  }
  return view.rank < 0;
}

std::string list_text(const std::array<std::int64_t, kMaxRank>& values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

// One bounded unknown of sum(step * x), 0 <= x <= most.
struct Term {
  __int128 step, most;
};

// Whether sum(step * x) can fall into [low, high]. Steps descend. Exact within `budget` nodes, then
// "yes", which is the safe answer.
bool reaches(std::span<const Term> terms, std::span<const __int128> reach, __int128 low,
             __int128 high, int& budget) {
  if (high < 0 || low > reach.front()) return false;
  if (terms.empty() || (low <= 0 && high >= 0)) return true;  // all unknowns at 0
  if (--budget < 0) return true;
  const auto [step, most] = terms.front();
  const __int128 rest = reach[1];
  const __int128 first = low > rest ? (low - rest + step - 1) / step : 0;
  for (__int128 x = first; x <= std::min(most, high / step); ++x) {
    if (reaches(terms.subspan(1), reach.subspan(1), low - step * x, high - step * x, budget))
      return true;
  }
  return false;
}

void add_terms(const TensorView& view, std::vector<Term>& terms) {
  for (int i = 0; i < view.rank; ++i) {
    const auto step = static_cast<__int128>(magnitude(view.strides[i])) *
                      static_cast<__int128>(itemsize(view.dtype));
    if (step != 0 && view.dims[i] > 1) terms.push_back({step, view.dims[i] - 1});
  }
}

}  // namespace

std::string_view device_kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kOpenCl:
      return "opencl";
    case DeviceKind::kHip:
      return "hip";
  }
  return "unknown";
}

std::string device_name(Device device) {
  return std::string(device_kind_name(device.kind)) + ":" + std::to_string(device.ordinal);
}

TensorView TensorView::contiguous(void* data, DType dtype, std::span<const std::int64_t> dims,
                                  Device device) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  view.rank = static_cast<int>(dims.size());  // beyond kMaxRank: check_shape refuses it
  std::uint64_t stride = 1;                   // wraps for sizes that check_shape refuses
  for (int i = std::min(view.rank, kMaxRank) - 1; i >= 0; --i) {
    view.dims[i] = dims[i];
    view.strides[i] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(dims[i], 1));
  }
  return view;
}

TensorView TensorView::absent() {
  TensorView view;
  view.rank = -1;
  return view;
}

bool TensorView::is_contiguous() const {
  if (is_empty(*this)) return true;
  std::int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

std::int64_t TensorView::element_count() const {
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] == 0) return 0;
    count *= dims[i];
  }
  return count;
}

Status check_shape(const TensorView& view, std::string_view name) {
  const std::string who(name);
  const auto refuse = [&](const std::string& why) {
    return fail(Code::kInvalidArgument, who + ": " + why, "tensor/view");
  };
  if (!view.present()) return {};
  if (view.rank > kMaxRank) {
    return refuse("rank " + std::to_string(view.rank) + " is above the most, " +
                  std::to_string(kMaxRank));
  }
  for (int i = 0; i < view.rank; ++i) {
    if (view.dims[i] < 0) {
      return refuse("dim " + std::to_string(i) + " is " + std::to_string(view.dims[i]) +
                    "; a size cannot be negative");
    }
  }
  if (is_empty(view)) return {};
  std::int64_t count = 1;
  const auto size = static_cast<std::int64_t>(itemsize(view.dtype));
  for (int i = 0; i < view.rank; ++i) {
    if (__builtin_mul_overflow(count, view.dims[i], &count) || count > kMost / size) {
      return refuse("dims " + list_text(view.dims, view.rank) + " overflow 63 bits of bytes");
    }
  }
  __int128 below = 0, above = 0;
  for (int i = 0; i < view.rank; ++i) {
    const __int128 extent = static_cast<__int128>(view.dims[i] - 1) * view.strides[i] * size;
    (extent < 0 ? below : above) += extent;
    if (above - below > kMost - size) {
      return refuse("strides " + list_text(view.strides, view.rank) + " with dims " +
                    list_text(view.dims, view.rank) + " reach beyond 63 bits of bytes");
    }
  }
  if (view.data == nullptr)
    return refuse("data is null but dims are " + list_text(view.dims, view.rank));
  const auto address = static_cast<__int128>(reinterpret_cast<std::uintptr_t>(view.data));
  if (address + below < 0 ||
      address + above + size > static_cast<__int128>(std::numeric_limits<std::uintptr_t>::max())) {
    return refuse("strides " + list_text(view.strides, view.rank) +
                  " reach beyond the address space");
  }
  return {};
}

ByteRange byte_range(const TensorView& view) {
  if (is_empty(view)) return {};
  const auto size = itemsize(view.dtype);
  auto low = reinterpret_cast<std::uintptr_t>(view.data), high = low + size;
  for (int i = 0; i < view.rank; ++i) {
    const std::uint64_t extent =
        static_cast<std::uint64_t>(view.dims[i] - 1) * magnitude(view.strides[i]) * size;
    if (view.strides[i] < 0)
      low -= extent;
    else
      high += extent;
  }
  return {low, high};
}

// Ranges that meet may still interleave without sharing an element (the two halves of every row of
// one buffer), so the question is asked exactly: is there an x in a and a y in b whose bytes meet?
bool overlaps(const TensorView& a, const TensorView& b) {
  if (is_empty(a) || is_empty(b) || a.device != b.device) return false;
  const ByteRange in_a = byte_range(a), in_b = byte_range(b);
  if (in_a.high <= in_b.low || in_b.high <= in_a.low) return false;
  // address(x) - address(y) in (-size a, size b). With every step made positive and y mirrored (y'
  // = most - y): sum(steps of a * x) + sum(steps of b * y') lies in [last of b - low of a - size a
  // + 1, last of b - low of a + size b - 1].
  const auto size_a = static_cast<__int128>(itemsize(a.dtype)),
             size_b = static_cast<__int128>(itemsize(b.dtype));
  const __int128 offset =
      static_cast<__int128>(in_b.high) - size_b - static_cast<__int128>(in_a.low);
  std::vector<Term> terms;
  add_terms(a, terms);
  add_terms(b, terms);
  std::sort(terms.begin(), terms.end(),
            [](const Term& x, const Term& y) { return x.step > y.step; });
  std::vector<Term> merged;
  for (const Term& term : terms) {
    if (!merged.empty() && merged.back().step == term.step)
      merged.back().most += term.most;
    else
      merged.push_back(term);
  }
  std::vector<__int128> reach(merged.size() + 1,
                              0);  // reach[i]: the most that terms i.. can add up to
  for (std::size_t i = merged.size(); i-- > 0;)
    reach[i] = reach[i + 1] + merged[i].step * merged[i].most;
  int budget = 20000;
  return reaches(merged, reach, offset - size_a + 1, offset + size_b - 1, budget);
}

std::string describe(const TensorView& view) {
  if (!view.present()) return "absent";
  const int shown = std::min(view.rank, kMaxRank);
  return std::string(dtype_name(view.dtype)) + list_text(view.dims, shown) + " strides " +
         list_text(view.strides, shown) + " on " + device_name(view.device);
}

}  // namespace opforge
