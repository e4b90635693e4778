// What a Runtime is made of, and the slow half of a call: from arguments to a plan. Internal to
// src/runtime.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/dispatch.hpp"
#include "runtime/operator_view.hpp"
#include "runtime/plan_cache.hpp"
#include "runtime/runtime.hpp"
#include "runtime/workspace.hpp"

namespace opforge {

// Where a call runs.
struct Site {
  DeviceApi* api = nullptr;
  DeviceInfo device;
};

// Everything that resolving a call found out; `explain` shows all of it.
struct Resolved {
  std::shared_ptr<const OperatorView> view;
  std::optional<BoundCall> call;
  Contract asked = Tier::kFast;
  std::vector<Verdict> verdicts;  // of view->artifacts
  std::optional<Choice> choice;
  std::shared_ptr<const Plan> plan;  // one of these three is set
  std::optional<Unavailable> unavailable;
  std::optional<Error> error;
};

ValueMap to_map(std::span<const CallAttribute> attributes);

class RuntimeState {
 public:
  explicit RuntimeState(std::vector<Launcher*> launchers);

  Resolved resolve(std::string_view op, std::span<const TensorView> tensors,
                   const ValueMap& attributes, const CallOptions& options,
                   const CallState& call_state);
  // resolve(), counted, warned about and kept: what prepare() and a call that is not in the
  // thread's table use.
  using Found = std::variant<std::shared_ptr<const CachedPlan>, Unavailable>;
  Result<Found> find_or_make(std::string_view op, std::span<const TensorView> tensors,
                             std::span<const CallAttribute> attributes, const CallOptions& options,
                             const CallState& call_state, const CallKey& key);

  Result<std::shared_ptr<const OperatorView>> view(std::string_view op);
  // What of the process and of the stream decides. Asks the driver only where a stream can be
  // captured.
  Result<CallState> call_state(std::span<const TensorView> tensors, StreamHandle stream,
                               std::uint64_t* stream_id);
  DeviceApi* device_api(DeviceKind kind) const;
  std::set<std::string> known_backends();
  // kNotFound with the valid names, unless `name` is one of them.
  Status check_backend(std::string_view name, std::string_view what);
  void count(const CachedPlan& entry) const;

  std::vector<Launcher*> launchers;
  std::atomic<std::uint64_t> generation{1};  // of sources and settings; every change moves it on
  PlanTable plans;
  WorkspacePool workspaces;

  mutable std::mutex mutex;  // of all that follows
  std::vector<std::shared_ptr<ArtifactSource>> sources;
  std::map<std::string, std::shared_ptr<const OperatorView>, std::less<>> views;
  std::vector<std::shared_ptr<const OperatorView>>
      retired;                   // signatures that were handed out stay good
  std::string forced;            // backend; empty: none
  std::set<std::string> warned;  // "operator backend" of forced backends that could not serve
  std::map<DeviceKind, std::vector<DeviceInfo>> devices;
  std::optional<std::set<std::string>> backends;
  std::set<Digest> choices;

 private:
  // The device of the tensors, or the reason why it is not here.
  std::variant<Site, std::string> site(std::span<const TensorView> tensors);
  std::vector<DeviceInfo> devices_of(DeviceKind kind);
  DeviceInfo host();
  void choose_and_build(Resolved& resolved, const Question& question, const Site& site);
  Result<std::shared_ptr<const Plan>> build(const Resolved& resolved, const Question& question,
                                            const Choice& choice, const Site& site);
  Launcher* launcher_for(const OfferedArtifact& offered) const;
  void note_choice(const Resolved& resolved, const CallOptions& options);
};

}  // namespace opforge
