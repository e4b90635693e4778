#include "runtime/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "operator/overlap.hpp"
#include "runtime/code_cache.hpp"

namespace opforge {
namespace {
constexpr const char* kWhere = "runtime/plan";
}

std::string_view grade_name(Grade grade) {
  switch (grade) {
    case Grade::kExact:
      return "exact";
    case Grade::kNearest:
      return "nearest";
    case Grade::kDefault:
      return "default";
    case Grade::kReference:
      return "reference";
  }
  return "?";
}

Status Plan::execute(void* const* tensors, void* workspace, StreamHandle stream) const {
  std::uintptr_t bad = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensors[i]);
    bad |=
        (address & tensors_[i].align_mask) | std::uintptr_t{tensors_[i].required && address == 0};
  }
  for (const Conflict& conflict : conflicts_) {
    const Tensor& a = tensors_[conflict.output];
    const Tensor& b = tensors_[conflict.other];
    const char* at = static_cast<const char*>(tensors[conflict.output]);
    const char* bt = static_cast<const char*>(tensors[conflict.other]);
    const std::int64_t distance = at - bt;
    bad |= std::uintptr_t{distance + a.high_bytes > b.low_bytes &&
                          distance + a.low_bytes < b.high_bytes};
  }
  if (bad != 0) [[unlikely]]
    OPFORGE_TRY(check_pointers(tensors));
  if (steps_.empty()) return {};
  if (staging_ != nullptr) [[unlikely]]
    return execute_staged(tensors, stream);
  if (workspace_bytes_ != 0 &&
      (workspace == nullptr ||
       (reinterpret_cast<std::uintptr_t>(workspace) & workspace_mask_) != 0)) [[unlikely]] {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: needs {} bytes of workspace aligned to {}, got {}", op_, workspace_bytes_,
                    workspace_mask_ + 1, workspace == nullptr ? "none" : "a pointer less aligned"),
        kWhere);
  }
  return launch_steps(tensors, workspace, stream);
}

Status Plan::launch_steps(void* const* tensors, void* workspace, StreamHandle stream) const {
  if (steps_.size() == 1) [[likely]]
    return launcher_->launch(steps_[0], tensors, workspace, ordinal_, stream);
  for (const PreparedStep& step : steps_)
    OPFORGE_TRY(launcher_->launch(step, tensors, workspace, ordinal_, stream));
  return {};
}

// The slow half of the checks: which pointer, what is wrong with it. Ranges that overlap may still
// share no element (two column blocks of one matrix), and memory that is declared to alias may be
// exactly the same.
Status Plan::check_pointers(void* const* tensors) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].required && tensors[i] == nullptr) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: the data of '{}' is null, but it has {} elements", op_,
                              names_[i], views_[i].element_count()),
                  kWhere);
    }
    if ((reinterpret_cast<std::uintptr_t>(tensors[i]) & tensors_[i].align_mask) != 0) {
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: the data of '{}' at {} is not aligned to {} bytes, as this plan "
                              "was prepared for; "
                              "prepare again with this tensor",
                              op_, names_[i], tensors[i], tensors_[i].align_mask + 1),
                  kWhere);
    }
  }
  for (const Conflict& conflict : conflicts_) {
    TensorView a = views_[conflict.output], b = views_[conflict.other];
    a.data = tensors[conflict.output];
    b.data = tensors[conflict.other];
    if (!may_share_elements(a, b)) continue;
    const bool same = a.data == b.data && a.dtype == b.dtype && a.rank == b.rank &&
                      std::equal(a.dims.begin(), a.dims.begin() + a.rank, b.dims.begin()) &&
                      std::equal(a.strides.begin(), a.strides.begin() + a.rank, b.strides.begin());
    if (conflict.same_allowed && same) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("{}: output '{}' overlaps '{}'; {}", op_, names_[conflict.output],
                            names_[conflict.other],
                            conflict.same_allowed ? "they may only be exactly the same memory"
                                                  : "give it its own memory"),
                kWhere);
  }
  return {};
}

namespace {

// Host copies of the bytes that tensors touch; freed when it goes.
struct Mirrors {
  std::vector<void*> bases, data;
  explicit Mirrors(std::size_t count) : bases(count, nullptr), data(count, nullptr) {}
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;
  ~Mirrors() {
    for (void* base : bases) std::free(base);
  }
};

}  // namespace

Status Plan::execute_staged(void* const* tensors, StreamHandle stream) const {
  const int ordinal = device_.device.ordinal;
  OPFORGE_TRY(staging_->synchronize(ordinal, stream));
  Mirrors mirrors(tensors_.size());
  constexpr std::int64_t kAlign = 64;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::int64_t size = tensors_[i].high_bytes - tensors_[i].low_bytes;
    if (size == 0) continue;
    mirrors.bases[i] =
        std::aligned_alloc(kAlign, static_cast<std::size_t>((size + kAlign - 1) / kAlign * kAlign));
    if (mirrors.bases[i] == nullptr) {
      return fail(
          Code::kOutOfMemory,
          fmt::format("{}: no {} bytes of host memory for a copy of '{}'", op_, size, names_[i]));
    }
    mirrors.data[i] = static_cast<char*>(mirrors.bases[i]) - tensors_[i].low_bytes;
    // Outputs too: what lies between their elements must come back unchanged.
    OPFORGE_TRY(staging_->copy(ordinal, mirrors.bases[i],
                               static_cast<char*>(tensors[i]) + tensors_[i].low_bytes,
                               static_cast<std::size_t>(size)));
  }
  std::vector<std::byte> workspace(workspace_bytes_ + workspace_mask_ + 1);
  const auto address =
      (reinterpret_cast<std::uintptr_t>(workspace.data()) + workspace_mask_) & ~workspace_mask_;
  OPFORGE_TRY(launch_steps(mirrors.data.data(), reinterpret_cast<void*>(address), nullptr));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].written) continue;
    OPFORGE_TRY(staging_->copy(
        ordinal, static_cast<char*>(tensors[i]) + tensors_[i].low_bytes, mirrors.bases[i],
        static_cast<std::size_t>(tensors_[i].high_bytes - tensors_[i].low_bytes)));
  }
  return {};
}

Status keep_if_captured(const Plan& plan, StreamHandle stream) {
  if (plan.launcher_ == nullptr || plan.device_.device.kind == DeviceKind::kCpu || plan.staged())
    return {};
  OPFORGE_ASSIGN(const auto state,
                 plan.launcher_->device_api().stream_state(plan.ordinal_, stream));
  if (state.capturing) pin_code(plan.code_);
  return {};
}

}  // namespace opforge
