// A launcher, devices and a source of artifacts that exist only in these tests: they record what
// they are asked, and run no kernel.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/launcher.hpp"
#include "runtime/runtime.hpp"

namespace opforge::fake {

struct Launch {
  std::string symbol;
  PreparedStep step;
  std::vector<void*> tensors;
  void* workspace = nullptr;
  int ordinal = 0;
  StreamHandle stream = nullptr;
};

struct Code : LoadedCode {
  static inline int alive = 0;
  Code() { ++alive; }
  ~Code() override { --alive; }
};

class Devices : public DeviceApi {
 public:
  Devices(DeviceKind kind, int count, std::string model, int arch) {
    for (int i = 0; i < count; ++i) {
      DeviceInfo info;
      info.device = {kind, i};
      info.model = model;
      info.arch = arch;
      info.driver_version = kind == DeviceKind::kCpu ? 0 : 13000;
      info.sm_count = 4;
      info.shared_bytes = 100000;
      infos.push_back(info);
    }
  }
  Support available() override {
    return infos.empty() ? Support::no("no driver was found (tried libfake.so)") : Support::yes();
  }
  std::vector<DeviceInfo> devices() override { return infos; }
  Result<void*> allocate(int, std::size_t bytes, StreamHandle) override {
    ++allocations;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void release(int, void* memory, StreamHandle) override {
    ++releases;
    std::free(memory);
  }
  Status copy(int, void* to, const void* from, std::size_t bytes) override {
    ++copies;
    std::memcpy(to, from, bytes);
    return {};
  }
  Status synchronize(int, StreamHandle) override {
    ++synchronizations;
    return {};
  }
  Result<StreamState> stream_state(int, StreamHandle stream) override {
    return StreamState{capturing.contains(stream), reinterpret_cast<std::uint64_t>(stream)};
  }

  std::vector<DeviceInfo> infos;
  std::set<StreamHandle> capturing;
  int allocations = 0, releases = 0, copies = 0, synchronizations = 0;
};

class FakeLauncher : public Launcher {
 public:
  FakeLauncher(std::string name, DeviceKind kind, int devices, std::string model, int arch)
      : api(kind, devices, std::move(model), arch), name_(std::move(name)), kind_(kind) {}
  std::string_view name() const override { return name_; }
  DeviceKind device_kind() const override { return kind_; }
  bool accepts(CodeKind kind) const override {
    return kind_ == DeviceKind::kCpu ? kind == CodeKind::kElfShared
                                     : kind == CodeKind::kCubin || kind == CodeKind::kPtx;
  }
  DeviceApi& device_api() override { return api; }
  Result<std::shared_ptr<LoadedCode>> load(const Artifact& artifact, const std::string& code, int,
                                           bool) override {
    const std::lock_guard lock(mutex);
    ++loads;
    loaded_code.push_back(code);
    if (load_error) return fail(*load_error, "cannot load " + to_string(artifact.variant));
    return std::shared_ptr<LoadedCode>(std::make_shared<Code>());
  }
  Status resolve(LoadedCode&, const std::string& symbol, int, PreparedStep& step) override {
    if (symbol == "missing") return fail(Code_::kCorrupt, "the code has no symbol 'missing'");
    const std::lock_guard lock(mutex);
    step.function = const_cast<std::string*>(&*symbols.insert(symbol).first);
    return {};
  }
  Status launch(const PreparedStep& step, void* const* tensors, void* workspace, int ordinal,
                StreamHandle stream) override {
    if (run) return run(step, tensors, workspace);
    const std::lock_guard lock(mutex);
    Launch record;
    record.symbol =
        step.function == nullptr ? "memset" : *static_cast<const std::string*>(step.function);
    record.step = step;
    for (int i = 0; i < tensor_count; ++i) record.tensors.push_back(tensors[i]);
    record.workspace = workspace;
    record.ordinal = ordinal;
    record.stream = stream;
    launches.push_back(std::move(record));
    return {};
  }

  using Code_ = opforge::Code;
  Devices api;
  std::mutex mutex;
  int loads = 0;
  int tensor_count = 2;
  std::optional<Code_> load_error;
  std::vector<std::string> loaded_code;
  std::set<std::string> symbols;
  std::vector<Launch> launches;
  std::function<Status(const PreparedStep&, void* const*, void*)> run;

 private:
  std::string name_;
  DeviceKind kind_;
};

class Source : public ArtifactSource {
 public:
  explicit Source(std::string name = "test.ofpack") : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<std::string> operators() const override {
    std::vector<std::string> names;
    for (const auto& [op, section] : sections) names.push_back(op);
    return names;
  }
  Result<std::shared_ptr<const OperatorSection>> section(std::string_view op) override {
    const auto found = sections.find(std::string(op));
    if (found == sections.end())
      return fail(opforge::Code::kNotFound, "no operator " + std::string(op));
    return std::shared_ptr<const OperatorSection>(found->second);
  }
  Result<std::string> code(const Artifact& artifact) override {
    if (corrupt)
      return fail(opforge::Code::kCorrupt,
                  "the code of " + to_string(artifact.variant) + " is damaged");
    return "code of " + artifact.variant.kernel;
  }

  std::map<std::string, std::shared_ptr<OperatorSection>> sections;
  bool corrupt = false;

 private:
  std::string name_;
};

// x: {"...M","N"} of T, y the same (written), attribute eps and a baked attribute `flag`.
inline Signature signature(const std::string& name = "test.op") {
  Signature s;
  s.name = name;
  TensorArg x, y;
  x.name = "x";
  x.dims = {"...M", "N"};
  x.dtype = "T";
  y = x;
  y.name = "y";
  y.access = Access::kWrite;
  s.tensors = {x, y};
  AttrArg eps;
  eps.name = "eps";
  eps.default_value = 1e-6;
  AttrArg flag;
  flag.name = "flag";
  flag.type = AttrType::kBool;
  flag.default_value = std::int64_t{0};
  flag.baked = true;
  s.attributes = {eps, flag};
  s.dtypes = {{{"T", DType::kF32}}, {{"T", DType::kBF16}}};
  s.reduced_dims = {"N"};
  s.default_contract = Tier::kFast;
  s.backend_priority = {"gpu", "cpu"};
  return s;
}

// Distinct for each name, and never zero.
inline Digest digest(const std::string& text) { return sha256(text); }

struct ArtifactSpec {
  std::string kernel;
  std::string backend = "cpu";
  Tier tier = Tier::kFast;
  std::string target = "x86-64";
  DType dtype = DType::kF32;
  ValueMap values = {};
  std::int64_t flag = 0;
  std::string guard = {};
};

inline Artifact artifact(const ArtifactSpec& spec) {
  Artifact a;
  a.variant.op = "test.op";
  a.variant.kernel = spec.kernel;
  a.variant.backend = spec.backend;
  a.variant.tier = spec.tier;
  a.variant.target = spec.target;
  a.variant.values = spec.values;
  if (spec.backend != "reference") {
    a.variant.dtypes = {{"T", spec.dtype}};
    a.variant.baked = {{"flag", spec.flag}};
  }
  a.kind = spec.target.starts_with("x86")       ? CodeKind::kElfShared
           : spec.target.starts_with("compute") ? CodeKind::kPtx
                                                : CodeKind::kCubin;
  LaunchStep step;
  step.entry = "run";
  step.grid[0] = "M";
  step.bindings.resize(3);
  step.bindings[0].name = "x";
  step.bindings[0].value = "x";
  step.bindings[1].name = "y";
  step.bindings[1].value = "y";
  step.bindings[2].name = "n";
  step.bindings[2].type = ParamType::kI64;
  step.bindings[2].value = "N";
  a.launch.steps = {step};
  if (!spec.guard.empty()) a.launch.guards.push_back({spec.guard, "guard says no: " + spec.guard});
  const std::string name = to_string(a.variant);
  a.symbols = {{"run", "sym " + name}};
  a.code_key = digest("key " + name);
  a.code_digest = digest("code " + name);
  a.proof_key = digest("proof");
  for (const auto& [tunable, value] : spec.values) {
    a.defaults.push_back({tunable, "", {std::get<std::int64_t>(value)}, false, false});
  }
  return a;
}

inline Attestation proof(const Artifact& artifact, const std::string& model,
                         Tier tier = Tier::kDeterministic) {
  Attestation p;
  p.code_digest = artifact.code_digest;
  p.proof_key = artifact.proof_key;
  p.op = artifact.variant.op;
  p.device_model = model;
  p.tier = tier;
  p.passed = true;
  return p;
}

inline constexpr const char* kCpuModel = "Test CPU";
inline constexpr const char* kGpuModel = "Test GPU";

// Launchers live until the process ends, as real ones do: loaded code is kept by their address.
template <class... Args>
FakeLauncher& launcher(Args&&... args) {
  static std::vector<std::unique_ptr<FakeLauncher>>& all =
      *new std::vector<std::unique_ptr<FakeLauncher>>;
  return *all.emplace_back(std::make_unique<FakeLauncher>(std::forward<Args>(args)...));
}

// One operator, two launchers ("cpu" with one device of level 3, "gpu" with two of architecture
// 90), one source.
struct World {
  FakeLauncher& cpu = launcher("cpu", DeviceKind::kCpu, 1, kCpuModel, 3);
  FakeLauncher& gpu = launcher("gpu", DeviceKind::kCuda, 2, kGpuModel, 90);
  std::shared_ptr<Source> source = std::make_shared<Source>();
  std::shared_ptr<OperatorSection> section = std::make_shared<OperatorSection>();
  std::unique_ptr<Runtime> runtime;
  std::vector<float> x = std::vector<float>(4096), y = std::vector<float>(4096);

  World() {
    section->signature = signature();
    source->sections["test.op"] = section;
  }
  // Artifacts are attested at their own tier on both models, unless `proved` is false.
  Artifact& add(const ArtifactSpec& spec, bool proved = true) {
    section->artifacts.push_back(artifact(spec));
    const Artifact& made = section->artifacts.back();
    if (proved) {
      section->attestations.push_back(proof(made, kCpuModel, spec.tier));
      section->attestations.push_back(proof(made, kGpuModel, spec.tier));
    }
    return section->artifacts.back();
  }
  TableEntry& measure(const Artifact& made, std::int64_t m, std::int64_t n, double us,
                      const std::string& model = kCpuModel) {
    TableEntry entry;
    entry.dtypes = made.variant.dtypes;
    entry.dims = {{"M", m}, {"N", n}};
    entry.attributes = {{"eps", 1e-6}, {"flag", std::int64_t{0}}};
    entry.layout = "c16,c16";
    entry.device_model = model;
    entry.target = made.variant.target;
    entry.contract = Tier::kFast;
    entry.code_key = made.code_key;
    entry.median_us = us;
    section->table.push_back(entry);
    return section->table.back();
  }
  Runtime& open() {
    runtime = std::make_unique<Runtime>(std::vector<Launcher*>{&cpu, &gpu});
    runtime->add_source(source);
    return *runtime;
  }
  std::vector<TensorView> tensors(std::int64_t m, std::int64_t n, Device device = {},
                                  DType dtype = DType::kF32) {
    const std::int64_t dims[] = {m, n};
    return {TensorView::contiguous(x.data(), dtype, dims, device),
            TensorView::contiguous(y.data(), dtype, dims, device)};
  }
  Result<Prepared> prepare(std::int64_t m, std::int64_t n, const CallOptions& options = {},
                           Device device = {}) {
    if (!runtime) open();
    return runtime->prepare("test.op", tensors(m, n, device), {}, options);
  }
  // The kernel that serves, or the error's or refusal's text in brackets.
  std::string serves(std::int64_t m, std::int64_t n, const CallOptions& options = {},
                     Device device = {}) {
    const auto prepared = prepare(m, n, options, device);
    if (!prepared)
      return "[" + std::string(code_name(prepared.error().code)) + "] " + prepared.error().message;
    if (const auto* no = std::get_if<Unavailable>(&*prepared)) return "[unavailable] " + no->reason;
    return std::get<0>(*prepared)->artifact().variant.kernel;
  }
};

inline constexpr Device kGpu0{DeviceKind::kCuda, 0};
inline constexpr Device kGpu1{DeviceKind::kCuda, 1};

}  // namespace opforge::fake
