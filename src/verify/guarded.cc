// Guarded memory: reading it back, poisoning it, and finding what was changed that should not have
// been.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "verify/guarded_state.hpp"

namespace opforge {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 20;

std::string position_text(std::span<const std::int64_t> dims, std::int64_t index) {
  std::string text;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::int64_t at = dims[axis] > 0 ? index % dims[axis] : 0;
    index = dims[axis] > 0 ? index / dims[axis] : 0;
    text = fmt::format("{}{}{}", at, text.empty() ? "" : ",", text);
  }
  return text;
}

}  // namespace

GuardedTensor::GuardedTensor() = default;
GuardedTensor::GuardedTensor(GuardedTensor&&) noexcept = default;
GuardedTensor& GuardedTensor::operator=(GuardedTensor&&) noexcept = default;
GuardedTensor::~GuardedTensor() = default;

const TensorView& GuardedTensor::view() const {
  static const TensorView kAbsent = TensorView::absent();
  return state_ ? state_->view : kAbsent;
}

const std::vector<std::int64_t>& GuardedTensor::dims() const {
  static const std::vector<std::int64_t> kNone;
  return state_ ? state_->dims : kNone;
}

namespace {

// Runs of consecutive elements (row-major in the declared dims) that `rows` selects.
struct Run {
  std::int64_t first, count;
};

std::vector<Run> runs_of(std::span<const std::int64_t> dims, const Rows& rows) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (rows.axis < 0 || static_cast<int>(i) > rows.axis)
      inner *= dims[i];
    else if (static_cast<int>(i) < rows.axis)
      outer *= dims[i];
  }
  if (rows.axis < 0) return {{0, inner}};
  std::vector<Run> out;
  const std::int64_t extent = dims[static_cast<std::size_t>(rows.axis)];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t row : rows.at) out.push_back({(o * extent + row) * inner, inner});
  }
  return out;
}

std::vector<double> to_doubles(const std::string& bytes, DType dtype) {
  const std::size_t size = itemsize(dtype);
  std::vector<double> out(bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_as_double(&bytes[i * size], dtype);
  return out;
}

// The elements' bytes in row-major order out of a copy of the allocation.
std::string packed(const TensorView& view, const char* data) {
  const std::size_t size = itemsize(view.dtype);
  std::string out(static_cast<std::size_t>(view.element_count()) * size, '\0');
  if (view.is_contiguous()) {
    if (!out.empty()) std::memcpy(out.data(), data, out.size());
    return out;
  }
  for_each_element(view, [&](std::int64_t i, std::int64_t offset) {
    std::memcpy(&out[static_cast<std::size_t>(i) * size], data + offset, size);
  });
  return out;
}

std::string pick(const std::string& all, std::span<const Run> runs, std::size_t size) {
  std::string out;
  for (const Run& run : runs) {
    out.append(all, static_cast<std::size_t>(run.first) * size,
               static_cast<std::size_t>(run.count) * size);
  }
  return out;
}

}  // namespace

std::vector<double> GuardedTensor::initial(Rows rows) const {
  if (!state_) return {};
  const State& s = *state_;
  const std::size_t size = s.element_bytes();
  const std::vector<Run> runs = runs_of(s.dims, rows);
  if (!s.tiled())
    return to_doubles(pick(packed(s.view, s.image.data() + s.data_at), runs, size), s.view.dtype);
  const std::size_t tile = s.tile.size() / size;
  std::vector<double> out;
  for (const Run& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      out.push_back(load_as_double(&s.tile[static_cast<std::size_t>(run.first + i) % tile * size],
                                   s.view.dtype));
    }
  }
  return out;
}

Result<std::string> GuardedTensor::bits(Rows rows) const {
  if (!state_) return std::string();
  const State& s = *state_;
  const std::size_t size = s.element_bytes();
  const std::vector<Run> runs = runs_of(s.dims, rows);
  if (s.tiled()) {  // contiguous: read only what is asked for
    std::string out;
    for (const Run& run : runs) {
      const std::size_t before = out.size(), bytes = static_cast<std::size_t>(run.count) * size;
      out.resize(before + bytes);
      OPFORGE_TRY(s.api->copy(s.ordinal, out.data() + before,
                              s.at(s.data_at + static_cast<std::size_t>(run.first) * size), bytes));
    }
    return out;
  }
  std::string now(s.allocation_bytes, '\0');
  OPFORGE_TRY(s.api->copy(s.ordinal, now.data(), s.allocation, now.size()));
  std::string all = packed(s.view, now.data() + s.data_at);
  return rows.axis < 0 ? std::move(all) : pick(all, runs, size);
}

Result<std::vector<double>> GuardedTensor::values(Rows rows) const {
  if (!state_) return std::vector<double>();
  OPFORGE_ASSIGN(const std::string bytes, bits(rows));
  return to_doubles(bytes, state_->view.dtype);
}

Status GuardedTensor::reset(int which) {
  if (!state_) return {};
  State& s = *state_;
  if (borrowed_) return {};
  if (s.whole_output) s.poison = which == 0 ? 0xff : 0x7b;
  if (!s.tiled()) {
    if (s.whole_output) {
      const std::size_t size = s.element_bytes();
      for_each_element(s.view, [&](std::int64_t, std::int64_t offset) {
        std::memset(s.image.data() + static_cast<std::int64_t>(s.data_at) + offset, s.poison, size);
      });
    }
    return s.api->copy(s.ordinal, s.allocation, s.image.data(), s.image.size());
  }
  const std::size_t data_bytes =
      static_cast<std::size_t>(s.view.element_count()) * s.element_bytes();
  const std::string canary(std::max(s.data_at, s.allocation_bytes - s.data_at - data_bytes),
                           static_cast<char>(s.canary));
  OPFORGE_TRY(s.api->copy(s.ordinal, s.allocation, canary.data(), s.data_at));
  OPFORGE_TRY(s.api->copy(s.ordinal, s.at(s.data_at + data_bytes), canary.data(),
                          s.allocation_bytes - s.data_at - data_bytes));
  std::string poison;
  if (s.whole_output) poison.assign(std::min(kChunkBytes, data_bytes), static_cast<char>(s.poison));
  const std::string& block = s.whole_output ? poison : s.tile;
  for (std::size_t done = 0; done < data_bytes; done += block.size()) {
    OPFORGE_TRY(s.api->copy(s.ordinal, s.at(s.data_at + done), block.data(),
                            std::min(block.size(), data_bytes - done)));
  }
  return {};
}

namespace {

Status changed_outside(std::int64_t offset, std::int64_t low, std::int64_t high,
                       std::string_view where) {
  if (offset < low) {
    return fail(Code::kInternal, fmt::format("wrote {} bytes before the start of the tensor{}",
                                             low - offset, where));
  }
  if (offset >= high) {
    return fail(Code::kInternal,
                fmt::format("wrote {} bytes after the end of the tensor{}", offset - high, where));
  }
  return fail(Code::kInternal,
              fmt::format("wrote into the gap between elements, {} bytes after its start{}",
                          offset - low, where));
}

}  // namespace

Status GuardedTensor::unchanged() const {
  if (!state_ || borrowed_) return {};
  const State& s = *state_;
  const std::size_t size = s.element_bytes();
  if (s.tiled()) {
    const std::size_t data_bytes = static_cast<std::size_t>(s.view.element_count()) * size;
    const std::size_t tail = s.data_at + data_bytes;
    for (const auto& [begin, end] :
         {std::pair{std::size_t{0}, s.data_at}, std::pair{tail, s.allocation_bytes}}) {
      std::string now(end - begin, '\0');
      OPFORGE_TRY(s.api->copy(s.ordinal, now.data(), s.at(begin), now.size()));
      const std::size_t bad = now.find_first_not_of(static_cast<char>(s.canary));
      if (bad != std::string::npos) {
        return changed_outside(static_cast<std::int64_t>(begin + bad),
                               static_cast<std::int64_t>(s.data_at),
                               static_cast<std::int64_t>(tail), "");
      }
    }
    std::string now;
    for (std::size_t done = 0; !s.written && done < data_bytes; done += s.tile.size()) {
      now.resize(std::min(s.tile.size(), data_bytes - done));
      OPFORGE_TRY(s.api->copy(s.ordinal, now.data(), s.at(s.data_at + done), now.size()));
      if (std::memcmp(now.data(), s.tile.data(), now.size()) != 0) {
        return fail(Code::kInternal, fmt::format("changed an input, in the {} bytes from byte {}",
                                                 now.size(), done));
      }
    }
    return {};
  }
  std::string now(s.allocation_bytes, '\0');
  OPFORGE_TRY(s.api->copy(s.ordinal, now.data(), s.allocation, now.size()));
  std::int64_t wrong = -1, low = static_cast<std::int64_t>(s.data_at), high = low;
  for_each_element(s.view, [&](std::int64_t i, std::int64_t offset) {
    const std::int64_t at = static_cast<std::int64_t>(s.data_at) + offset;
    low = std::min(low, at);
    high = std::max(high, at + static_cast<std::int64_t>(size));
    if (!s.written && wrong < 0 &&
        std::memcmp(&now[static_cast<std::size_t>(at)], &s.image[static_cast<std::size_t>(at)],
                    size) != 0)
      wrong = i;
    std::memcpy(&now[static_cast<std::size_t>(at)], &s.image[static_cast<std::size_t>(at)], size);
  });
  if (wrong >= 0) {
    return fail(Code::kInternal,
                fmt::format("changed element [{}] of an input", position_text(s.dims, wrong)));
  }
  const auto bad = std::mismatch(now.begin(), now.end(), s.image.begin()).first;
  if (bad != now.end()) return changed_outside(bad - now.begin(), low, high, "");
  return {};
}

Result<std::int64_t> GuardedTensor::still_poisoned() const {
  if (!state_ || !state_->whole_output) return 0;
  const State& s = *state_;
  const std::size_t size = s.element_bytes();
  const std::string pattern(size, static_cast<char>(s.poison));
  std::int64_t count = 0;
  const auto scan = [&](const std::string& bytes) {
    for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
      count += std::memcmp(&bytes[i], pattern.data(), size) == 0;
    }
  };
  if (!s.tiled()) {
    OPFORGE_ASSIGN(const std::string all, bits());
    scan(all);
    return count;
  }
  const std::size_t data_bytes = static_cast<std::size_t>(s.view.element_count()) * size;
  std::string now;
  for (std::size_t done = 0; done < data_bytes; done += kChunkBytes) {
    now.resize(std::min(kChunkBytes, data_bytes - done));
    OPFORGE_TRY(s.api->copy(s.ordinal, now.data(), s.at(s.data_at + done), now.size()));
    scan(now);
  }
  return count;
}

}  // namespace opforge
