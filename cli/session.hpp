// What run, explain and bench share: a runtime over a pack, or over sources in development mode, and a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "artifact/pack.hpp"
#include "cli/common.hpp"
#include "forge/develop.hpp"
#include "runtime/runtime.hpp"
#include "verify/subject.hpp"

namespace opforge::cli {

struct SessionOptions {
  std::string pack;                 // empty: compile what is needed from the sources (development mode)
  std::vector<std::string> trust;   // keys beside those of this process
  bool allow_unsigned = false;
  bool sealed = false;
  std::string backend, device, contract, proof = "default";
  bool allow_ptx = false;
};
void add_session(CLI::App& command, SessionOptions& options);

class Session {
 public:
  // `op` may be null; development mode compiles for it only.
  static Result<Session> open(const SessionOptions& options, const Common& common, std::string_view op);

  Runtime& runtime() { return *runtime_; }
  const DeviceInfo& device() const { return device_; }
  CallOptions call_options() const { return call_; }
  Result<const Signature*> signature(std::string_view op);
  // In development mode: compile the defaults for this shape before dispatch looks for them. Nothing with a pack.
  Status want(std::string_view op, const ValueMap& dims, const ValueMap& attributes, const DTypeCombo& dtypes);
  // What dispatch chooses of each of these backends (an empty name: of all) for each of these contracts, each code once,
  // with its bytes.
  Result<std::vector<BuiltCode>> chosen(std::string_view op, std::span<const TensorView> tensors, const ValueMap& attributes,
                                        std::span<const Tier> contracts, std::span<const std::string> backends);
  // Backends that have code of this operator for the session's device, the reference aside; of sources: what want() compiled.
  Result<std::vector<std::string>> backends(std::string_view op);

 private:
  std::unique_ptr<Catalogue> catalogue_;  // development mode; before the source that uses it
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<ArtifactSource> source_;
  std::shared_ptr<DevelopmentSource> development_;  // null with a pack
  DeviceInfo device_;
  CallOptions call_;
};

// The pack named by --pack, with the trust of this process and of --trust.
Result<std::shared_ptr<Pack>> open_pack(const std::string& path, const std::vector<std::string>& trust,
                                        bool allow_unsigned);

}  // namespace opforge::cli
