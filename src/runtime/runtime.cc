#include "runtime/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "runtime/backends.hpp"
#include "runtime/code_cache.hpp"
#include "runtime/metrics.hpp"
#include "runtime/seal.hpp"
#include "runtime/state.hpp"
#include "runtime/trace.hpp"

namespace opforge {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What the caller gave, for a record of the call.
TraceRecord record_of(std::string_view op, std::span<const TensorView> tensors,
                      std::span<const CallAttribute> attributes, const Signature* signature) {
  TraceRecord record;
  record.op = op;
  record.attributes = to_map(attributes);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& view = tensors[i];
    TraceTensor tensor;
    const bool named = signature != nullptr && i < signature->tensors.size();
    tensor.name = named ? signature->tensors[i].name : fmt::format("{}", i);
    if (view.present()) {
      const int rank = std::min(view.rank, kMaxRank);
      tensor.dtype = dtype_name(view.dtype);
      tensor.dims.assign(view.dims.begin(), view.dims.begin() + rank);
      tensor.strides.assign(view.strides.begin(), view.strides.begin() + rank);
      record.device = device_name(view.device);
    }
    record.tensors.push_back(std::move(tensor));
  }
  return record;
}

void record_plan(TraceRecord& record, const Plan& plan, Contract asked, bool forced) {
  const Variant& variant = plan.artifact().variant;
  record.kernel = variant.kernel;
  record.variant = to_string(variant);
  record.backend = variant.backend;
  record.tier = tier_name(variant.tier);
  record.contract = tier_name(asked);
  record.grade = forced ? "forced" : grade_name(plan.grade());
}

// Data pointers of a call, on the stack for every operator that there is.
class DataPointers {
 public:
  explicit DataPointers(std::span<const TensorView> tensors) {
    if (tensors.size() > inline_.size()) [[unlikely]] {
      large_.resize(tensors.size());
      data_ = large_.data();
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) data_[i] = tensors[i].data;
  }
  DataPointers(const DataPointers&) = delete;
  DataPointers& operator=(const DataPointers&) = delete;
  void* const* get() const { return data_; }

 private:
  std::array<void*, 16> inline_;
  std::vector<void*> large_;
  void** data_ = inline_.data();
};

// A map's attributes as a list on the stack, of which only what is used is written.
class AttributeList {
 public:
  explicit AttributeList(const ValueMap& map) {
    CallAttribute* at = reinterpret_cast<CallAttribute*>(inline_);
    if (map.size() > kInline) [[unlikely]] {
      large_.resize(map.size());
      at = large_.data();
    }
    list_ = {at, map.size()};
    for (const auto& [name, value] : map) {
      CallAttribute* one = new (at++) CallAttribute{.name = name};
      if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        one->integer = *integer;
      } else if (const auto* number = std::get_if<double>(&value)) {
        one->kind = CallAttribute::Kind::kFloat;
        one->number = *number;
      } else {
        one->kind = CallAttribute::Kind::kText;
        one->text = std::get<std::string>(value);
      }
    }
  }
  AttributeList(const AttributeList&) = delete;
  AttributeList& operator=(const AttributeList&) = delete;
  std::span<const CallAttribute> get() const { return list_; }

 private:
  static constexpr std::size_t kInline = 8;
  alignas(CallAttribute) std::byte inline_[kInline * sizeof(CallAttribute)];
  std::vector<CallAttribute> large_;
  std::span<const CallAttribute> list_;
};

using Outcome = Result<std::optional<Unavailable>>;

Outcome run(RuntimeState& state, const CachedPlan& entry, std::span<const TensorView> tensors,
            StreamHandle stream, std::uint64_t stream_id, bool capturing) {
  const Plan& plan = *entry.plan;
  const DataPointers data(tensors);
  WorkspacePool::Lease workspace;
  if (plan.workspace_bytes() != 0 && !plan.staged()) {
    if (capturing) {
      return std::optional(Unavailable{
          plan.artifact().variant.op,
          fmt::format("it needs {} bytes of workspace, which is not taken while the stream is "
                      "being captured: prepare a plan and bring your own",
                      plan.workspace_bytes())});
    }
    const Device device = plan.device().device;
    DeviceApi* api = state.device_api(device.kind);
    OPFORGE_ASSIGN(workspace,
                   state.workspaces.lease(*api, device, stream, stream_id, plan.workspace_bytes(),
                                          plan.workspace_align_mask()));
  }
  if (capturing) pin_code(plan.code());
  OPFORGE_TRY(plan.execute(data.get(), workspace.data(), stream));
  if (entry.counted) [[unlikely]]
    state.count(entry);
  return std::optional<Unavailable>{};
}

// One call without its trace. `used` gets the plan that served it, if one was found.
Outcome call_untraced(RuntimeState& state, std::string_view op, std::span<const TensorView> tensors,
                      std::span<const CallAttribute> attributes, const CallOptions& options,
                      std::shared_ptr<const CachedPlan>* used) {
  if (options.facts.user) {
    if (const Support met = options.facts.user(tensors); !met) {
      return std::optional(Unavailable{std::string(op), met.reason()});
    }
  }
  std::uint64_t stream_id = 0;
  OPFORGE_ASSIGN(const CallState call_state, state.call_state(tensors, options.stream, &stream_id));
  const CallKey key(op, tensors, attributes, options, call_state);
  ThreadPlans& mine = ThreadPlans::mine();
  const std::uint64_t generation = state.generation.load(std::memory_order_acquire);
  if (used == nullptr) [[likely]] {
    if (const CachedPlan* entry = mine.find(state.plans.id(), key, generation)) {
      const ThreadPlans::Running running(mine);
      return run(state, *entry, tensors, options.stream, stream_id, call_state.capturing);
    }
  }
  OPFORGE_ASSIGN(RuntimeState::Found found,
                 state.find_or_make(op, tensors, attributes, options, call_state, key));
  if (auto* unavailable = std::get_if<Unavailable>(&found))
    return std::optional(std::move(*unavailable));
  const auto entry = std::get<std::shared_ptr<const CachedPlan>>(std::move(found));
  mine.remember(state.plans.id(), entry);
  if (used != nullptr) *used = entry;
  const ThreadPlans::Running running(mine);
  return run(state, *entry, tensors, options.stream, stream_id, call_state.capturing);
}

}  // namespace

Runtime::Runtime()
    : Runtime(std::vector<Launcher*>(all_launchers().begin(), all_launchers().end())) {}
Runtime::Runtime(std::vector<Launcher*> launchers)
    : state_(std::make_unique<RuntimeState>(std::move(launchers))) {}
Runtime::~Runtime() = default;

void Runtime::add_source(std::shared_ptr<ArtifactSource> source) {
  std::lock_guard lock(state_->mutex);
  state_->sources.push_back(std::move(source));
  for (auto& [name, view] : state_->views) state_->retired.push_back(std::move(view));
  state_->views.clear();
  state_->backends.reset();
  state_->generation.fetch_add(1, std::memory_order_release);
}

std::vector<std::string> Runtime::operators() const {
  std::vector<std::shared_ptr<ArtifactSource>> sources;
  {
    std::lock_guard lock(state_->mutex);
    sources = state_->sources;
  }
  std::set<std::string> names;
  for (const auto& source : sources) {
    for (std::string& name : source->operators()) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

Result<const Signature*> Runtime::signature(std::string_view op) {
  OPFORGE_ASSIGN(const auto view, state_->view(op));
  return &view->signature();
}

Status Runtime::set_backend(std::string_view name) {
  if (!name.empty()) OPFORGE_TRY(state_->check_backend(name, "set_backend"));
  std::lock_guard lock(state_->mutex);
  state_->forced = name;
  state_->generation.fetch_add(1, std::memory_order_release);
  return {};
}

std::vector<std::string> Runtime::backends() const {
  const auto known = state_->known_backends();
  return {known.begin(), known.end()};
}

Result<Prepared> Runtime::prepare(std::string_view op, std::span<const TensorView> tensors,
                                  const ValueMap& attributes, const CallOptions& options) {
  if (options.facts.user) {
    if (const Support met = options.facts.user(tensors); !met) {
      count_event(op, "unavailable");
      return Prepared{Unavailable{std::string(op), met.reason()}};
    }
  }
  std::uint64_t stream_id = 0;
  OPFORGE_ASSIGN(const CallState call_state,
                 state_->call_state(tensors, options.stream, &stream_id));
  const AttributeList list(attributes);
  const CallKey key(op, tensors, list.get(), options, call_state);
  OPFORGE_ASSIGN(RuntimeState::Found found,
                 state_->find_or_make(op, tensors, list.get(), options, call_state, key));
  if (auto* unavailable = std::get_if<Unavailable>(&found)) {
    count_event(op, "unavailable");
    return Prepared{std::move(*unavailable)};
  }
  const auto& entry = std::get<std::shared_ptr<const CachedPlan>>(found);
  if (entry->counted) state_->count(*entry);
  return Prepared{entry->plan};
}

Result<std::optional<Unavailable>> Runtime::call(std::string_view op,
                                                 std::span<const TensorView> tensors,
                                                 const ValueMap& attributes,
                                                 const CallOptions& options) {
  const AttributeList list(attributes);
  return call_list(op, tensors, list.get(), options);
}

Result<std::optional<Unavailable>> Runtime::call_list(std::string_view op,
                                                      std::span<const TensorView> tensors,
                                                      std::span<const CallAttribute> attributes,
                                                      const CallOptions& options) {
  if (!trace_on()) [[likely]] {
    Outcome outcome = call_untraced(*state_, op, tensors, attributes, options, nullptr);
    if (outcome && *outcome) [[unlikely]]
      count_event(op, "unavailable");
    return outcome;
  }
  std::shared_ptr<const CachedPlan> used;
  const std::int64_t start = now_ns();
  Outcome outcome = call_untraced(*state_, op, tensors, attributes, options, &used);
  const std::int64_t end = now_ns();
  if (outcome && *outcome) count_event(op, "unavailable");

  const auto view = state_->view(op);
  TraceRecord record = record_of(op, tensors, attributes, view ? &(*view)->signature() : nullptr);
  record.start_ns = start;
  record.host_us = static_cast<double>(end - start) * 1e-3;
  const Contract fallback_contract = view ? (*view)->signature().default_contract : Tier::kFast;
  record.contract = tier_name(options.contract.value_or(fallback_contract));
  if (used != nullptr) record_plan(record, *used->plan, used->asked, !options.backend.empty());
  record.outcome = !outcome ? code_name(outcome.error().code) : *outcome ? "unavailable" : "ok";
  record.message = !outcome ? outcome.error().message : *outcome ? (*outcome)->reason : "";
  trace_add(std::move(record));
  return outcome;
}

Digest Runtime::choices_digest() const {
  std::lock_guard lock(state_->mutex);
  Fingerprint print;  // of a sorted set: the order of calls does not matter
  for (const Digest& choice : state_->choices) print.add("choice", choice);
  return print.finish();
}

}  // namespace opforge
