#include "runtime/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/backends.hpp"
#include "runtime/code_cache.hpp"
#include "runtime/environment.hpp"
#include "runtime/metrics.hpp"
#include "runtime/plan_builder.hpp"
#include "runtime/seal.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "runtime";

Device device_of(std::span<const TensorView> tensors) {
  for (const TensorView& view : tensors) {
    if (view.present()) return view.device;
  }
  return {};
}

}  // namespace

ValueMap to_map(std::span<const CallAttribute> attributes) {
  ValueMap map;
  for (const CallAttribute& one : attributes) {
    Value value = one.integer;
    if (one.kind == CallAttribute::Kind::kFloat) value = one.number;
    if (one.kind == CallAttribute::Kind::kText) value = std::string(one.text);
    map.insert_or_assign(std::string(one.name), std::move(value));
  }
  return map;
}

RuntimeState::RuntimeState(std::vector<Launcher*> with) : launchers(std::move(with)) {
  warn_of_unknown_variables();
  if (const char* name = std::getenv("OPFORGE_BACKEND"); name != nullptr) forced = name;
}

DeviceApi* RuntimeState::device_api(DeviceKind kind) const {
  for (Launcher* launcher : launchers) {
    if (launcher->device_kind() == kind) return &launcher->device_api();
  }
  return nullptr;
}

Result<std::shared_ptr<const OperatorView>> RuntimeState::view(std::string_view op) {
  std::vector<std::shared_ptr<ArtifactSource>> all;
  std::uint64_t asked_at = 0;
  {
    std::lock_guard lock(mutex);
    if (const auto found = views.find(op); found != views.end()) return found->second;
    all = sources;
    asked_at = generation.load();
  }
  OPFORGE_ASSIGN(auto made, OperatorView::gather(op, all));  // may read files: not under the lock
  std::lock_guard lock(mutex);
  if (generation.load() != asked_at) {
    retired.push_back(made);
    return made;
  }
  return views.try_emplace(std::string(op), made).first->second;
}

std::vector<DeviceInfo> RuntimeState::devices_of(DeviceKind kind) {
  {
    std::lock_guard lock(mutex);
    if (const auto found = devices.find(kind); found != devices.end()) return found->second;
  }
  DeviceApi* api = device_api(kind);
  auto found = api == nullptr ? std::vector<DeviceInfo>{} : api->devices();
  std::lock_guard lock(mutex);
  // None yet may be some later (a driver that is being installed, a test that brings its own).
  if (!found.empty()) devices.emplace(kind, found);
  return found;
}

DeviceInfo RuntimeState::host() {
  auto all = devices_of(DeviceKind::kCpu);
  return all.empty() ? detect_cpu() : all.front();
}

std::variant<Site, std::string> RuntimeState::site(std::span<const TensorView> tensors) {
  const Device device = device_of(tensors);
  DeviceApi* api = device_api(device.kind);
  if (api == nullptr)
    return fmt::format("{}: no launcher for {} devices", device_name(device),
                       device_kind_name(device.kind));
  const auto all = devices_of(device.kind);
  for (const DeviceInfo& info : all) {
    if (info.device == device) return Site{api, info};
  }
  if (const Support available = api->available(); !available) {
    return fmt::format("{}: {}", device_name(device), available.reason());
  }
  return fmt::format("{} is not here: there are {} {} devices", device_name(device), all.size(),
                     device_kind_name(device.kind));
}

Result<CallState> RuntimeState::call_state(std::span<const TensorView> tensors, StreamHandle stream,
                                           std::uint64_t* stream_id) {
  CallState state{is_sealed(), is_development(), false};
  *stream_id = 0;
  if (stream == nullptr) return state;  // the legacy stream cannot be captured
  const Device device = device_of(tensors);
  if (device.kind == DeviceKind::kCpu) return state;
  DeviceApi* api = device_api(device.kind);
  if (api == nullptr) return state;  // said by resolve()
  OPFORGE_ASSIGN(const DeviceApi::StreamState stream_state,
                 api->stream_state(device.ordinal, stream));
  state.capturing = stream_state.capturing;
  *stream_id = stream_state.id;
  return state;
}

std::set<std::string> RuntimeState::known_backends() {
  std::vector<std::shared_ptr<ArtifactSource>> all;
  std::uint64_t asked_at = 0;
  {
    std::lock_guard lock(mutex);
    if (backends) return *backends;
    all = sources;
    asked_at = generation.load();
  }
  std::set<std::string> known{std::string(kReferenceBackend)};
  for (const Launcher* launcher : launchers) known.emplace(launcher->name());
  for (const auto& source : all) {
    for (const std::string& op : source->operators()) {
      const auto section = source->section(op);
      if (!section) continue;  // reported when the operator is used
      for (const Artifact& artifact : (*section)->artifacts) known.insert(artifact.variant.backend);
      known.insert((*section)->signature.backend_priority.begin(),
                   (*section)->signature.backend_priority.end());
    }
  }
  std::lock_guard lock(mutex);
  if (generation.load() == asked_at) backends = known;
  return known;
}

Status RuntimeState::check_backend(std::string_view name, std::string_view what) {
  if (name == kReferenceBackend) return {};
  for (const Launcher* launcher : launchers) {
    if (launcher->name() == name) return {};  // without reading every section of every pack
  }
  const auto known = known_backends();
  if (known.contains(std::string(name))) return {};
  const std::vector<std::string> names(known.begin(), known.end());
  const auto near = nearest_names(name, names, 1);
  return fail(Code::kNotFound,
              fmt::format("{}: unknown backend '{}'{}; valid are {}", what, name,
                          near.empty() ? "" : fmt::format(" (did you mean {}?)", near.front()),
                          join(names, ", ")),
              kWhere);
}

Launcher* RuntimeState::launcher_for(const OfferedArtifact& offered) const {
  for (Launcher* launcher : launchers) {
    if (launcher->device_kind() == offered.target.device &&
        launcher->accepts(offered.artifact->kind))
      return launcher;
  }
  return nullptr;
}

Resolved RuntimeState::resolve(std::string_view op, std::span<const TensorView> tensors,
                               const ValueMap& attributes, const CallOptions& options,
                               const CallState& call_state) {
  Resolved resolved;
  const auto failed = [&resolved](Error error) -> Resolved {
    resolved.error = std::move(error);
    return std::move(resolved);
  };
  auto view_found = view(op);
  if (!view_found) return failed(std::move(view_found.error()));
  resolved.view = std::move(*view_found);
  const Signature& signature = resolved.view->signature();
  resolved.asked = options.contract.value_or(signature.default_contract);
  if (!options.backend.empty()) {
    if (auto known = check_backend(options.backend, signature.name); !known)
      return failed(std::move(known.error()));
  }
  std::string forced_now;
  {
    std::lock_guard lock(mutex);
    forced_now = forced;
  }
  if (!forced_now.empty()) {
    if (auto known = check_backend(forced_now, "OPFORGE_BACKEND"); !known)
      return failed(std::move(known.error()));
  }
  auto bound = bind_call(signature, tensors, attributes);
  if (!bound) {
    // A layout that no code of ours can be handed is the caller's to route elsewhere.
    if (bound.error().code != Code::kUnavailable) return failed(std::move(bound.error()));
    resolved.unavailable = Unavailable{signature.name, std::move(bound.error().message)};
    return resolved;
  }
  resolved.call = std::move(*bound);
  auto where = site(tensors);
  if (auto* reason = std::get_if<std::string>(&where)) {
    resolved.unavailable = Unavailable{signature.name, std::move(*reason)};
    return resolved;
  }
  const Site& here = std::get<Site>(where);
  const DeviceInfo host_info = host();
  const Question question{*resolved.view,    *resolved.call,
                          options,           resolved.asked,
                          here.device,       host_info,
                          forced_now,        call_state.development && !call_state.sealed,
                          call_state.sealed, call_state.capturing};
  choose_and_build(resolved, question, here);
  return resolved;
}

void RuntimeState::choose_and_build(Resolved& resolved, const Question& question,
                                    const Site& here) {
  Dispatch dispatch(question);
  while (true) {
    resolved.choice = dispatch.choose();
    if (!resolved.choice) break;
    auto plan = build(resolved, question, *resolved.choice, here);
    if (plan) {
      resolved.plan = std::move(*plan);
      break;
    }
    // What does not fit this call or this device is a "no" like any other; damage and the driver's
    // failures are errors.
    const Code code = plan.error().code;
    if (code == Code::kUnavailable && question.capturing) {
      resolved.unavailable =
          Unavailable{resolved.view->signature().name, std::move(plan.error().message)};
      break;
    }
    if (code != Code::kInvalidArgument && code != Code::kIncompatible &&
        code != Code::kUnavailable) {
      resolved.error = std::move(plan.error());
      break;
    }
    dispatch.reject(resolved.choice->artifact, std::move(plan.error().message));
  }
  resolved.verdicts = dispatch.verdicts();
  if (resolved.choice) return;
  auto refusal = dispatch.refusal();
  resolved.unavailable = std::move(refusal.unavailable);
  resolved.error = std::move(refusal.error);
}

Result<std::shared_ptr<const Plan>> RuntimeState::build(const Resolved& resolved,
                                                        const Question& question,
                                                        const Choice& choice, const Site& here) {
  const OfferedArtifact& offered = resolved.view->artifacts[choice.artifact];
  Launcher* launcher = launcher_for(offered);
  if (launcher == nullptr) {
    return fail(Code::kIncompatible,
                fmt::format("no launcher here takes {} code for {}",
                            code_kind_name(offered.artifact->kind), offered.target.name),
                kWhere);
  }
  const DeviceInfo& runs_on_device =
      offered.target.device == here.device.device.kind ? here.device : question.host;
  const int ordinal = runs_on_device.device.ordinal;
  if (question.capturing && !code_is_loaded(*launcher, offered.artifact->code_digest, ordinal)) {
    return fail(Code::kUnavailable,
                fmt::format("{} is not loaded yet, and nothing is loaded while the stream is being "
                            "captured: prepare this call before the capture",
                            to_string(offered.artifact->variant)),
                kWhere);
  }
  const auto& section = resolved.view->sections[offered.section];
  // The artifact lives in its section: it keeps the section and its source alive.
  std::shared_ptr<const Artifact> artifact(resolved.view, offered.artifact);
  const PlanBuilder builder{question.view.signature(),
                            question.call,
                            std::move(artifact),
                            *launcher,
                            runs_on_device,
                            [&]() { return section.source->code(*offered.artifact); },
                            question.options.allow_ptx && !question.sealed,
                            choice.grade,
                            choice.why,
                            choice.staged ? here.api : nullptr,
                            &here.device};
  return builder.build();
}

void RuntimeState::note_choice(const Resolved& resolved, const CallOptions& options) {
  Fingerprint print;
  print.add("op", resolved.view->signature().name);
  print.add("contract", tier_name(resolved.asked));
  print.add("backend", options.backend);
  print.add("dtypes", to_string(resolved.call->dtypes));
  for (const auto& [symbol, value] : resolved.call->dims) print.add(symbol, to_string(value));
  for (const auto& [name, value] : resolved.call->attributes) print.add(name, to_string(value));
  print.add("code", resolved.plan->artifact().code_key);
  std::lock_guard lock(mutex);
  choices.insert(print.finish());
}

Result<RuntimeState::Found> RuntimeState::find_or_make(std::string_view op,
                                                       std::span<const TensorView> tensors,
                                                       std::span<const CallAttribute> attributes,
                                                       const CallOptions& options,
                                                       const CallState& call_state,
                                                       const CallKey& key) {
  const std::uint64_t now = generation.load(std::memory_order_acquire);
  if (auto kept = plans.find(key, now)) return Found{std::move(kept)};
  Resolved resolved = resolve(op, tensors, to_map(attributes), options, call_state);
  if (resolved.unavailable) return Found{std::move(*resolved.unavailable)};
  if (resolved.error) {
    // Kept for sealed_misses(); the message of ours says more.
    if (resolved.error->code == Code::kCompilationSealed && resolved.call) {
      (void)may_compile(describe_call(resolved.view->signature(), *resolved.call));
    }
    return fail(std::move(*resolved.error));
  }
  const Choice& choice = *resolved.choice;
  auto entry = std::make_shared<CachedPlan>();
  entry->key.assign(key.words().begin(), key.words().end());
  entry->hash = key.hash();
  entry->generation = now;
  entry->plan = resolved.plan;
  entry->asked = resolved.asked;
  entry->fallback = choice.fallback;
  entry->unproved = choice.unproved;
  entry->reference = choice.grade == Grade::kReference;
  entry->forced_unserved = choice.forced_unserved;
  entry->counted = entry->fallback || entry->unproved || entry->reference || entry->forced_unserved;
  note_choice(resolved, options);
  if (choice.forced_unserved) {
    std::unique_lock lock(mutex);
    const std::string name = forced;
    const bool first =
        warned.insert(fmt::format("{} {}", resolved.view->signature().name, name)).second;
    lock.unlock();
    if (first) {
      log(LogLevel::kWarning, kWhere,
          fmt::format("backend {} is forced, but cannot serve {}: {} does", name,
                      resolved.view->signature().name,
                      to_string(resolved.plan->artifact().variant)));
    }
  }
  plans.insert(entry);
  return Found{std::shared_ptr<const CachedPlan>(std::move(entry))};
}

void RuntimeState::count(const CachedPlan& entry) const {
  const Variant& variant = entry.plan->artifact().variant;
  if (entry.fallback) count_fallback(variant.op, entry.asked, variant.tier);
  if (entry.unproved) count_event(variant.op, "unproved");
  if (entry.reference) count_event(variant.op, "reference");
  if (entry.forced_unserved) count_event(variant.op, "forced_unserved");
}

}  // namespace opforge
