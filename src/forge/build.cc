#include "forge/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.hpp"
#include "forge/attest.hpp"
#include "runtime/backends.hpp"
#include "runtime/operator_view.hpp"
#include "tune/trial.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "forge/build";

struct Job {
  const Operator* op;
  const KernelDecl* kernel;
  Variant variant;
  Store::Loaded built;
  BuildRow row;
  bool candidate = false;  // of a search space: may fail to compile
};

Result<std::vector<Target>> targets_of(const BuildRequest& request) {
  std::vector<Target> targets;
  const auto add = [&](const Target& target) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
  };
  for (const std::string& name : request.targets) {
    if (name == "native") {
      for (const DeviceInfo& device : all_devices()) {
        // An OpenCL device may be this CPU once more: its code is built when it is named.
        if (device.device.kind != DeviceKind::kOpenCl) add(native_targets(device).front());
      }
      continue;
    }
    OPFORGE_ASSIGN(Target target, parse_target(name));
    add(target);
  }
  if (targets.empty()) return fail(Code::kInvalidArgument, "build: no target was given; e.g. --target x86-64-v3,sm_90a or native", kWhere);
  // The reference is the last rung everywhere, and is compiled for the CPU baseline.
  OPFORGE_ASSIGN(Target baseline, parse_target("x86-64"));
  add(baseline);
  return targets;
}

// One request for each build case or shape, dtype combination and value of the baked attributes.
std::vector<ShapeRequest> shapes_of(const Operator& op, const BuildRequest& request) {
  std::vector<std::pair<ValueMap, ValueMap>> shapes;
  if (request.from_cases) {
    for (const Case& each : op.cases) {
      if (each.uses & unsigned(CaseUse::kBuild)) shapes.emplace_back(each.dims, each.attributes);
    }
  }
  const std::vector<std::string> symbols = dim_symbols(op.signature);
  for (const ValueMap& dims : request.shapes) {
    const bool fits = dims.size() == symbols.size() &&
                      std::all_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) { return dims.contains(symbol); });
    if (fits) shapes.emplace_back(dims, ValueMap{});
  }
  std::vector<ShapeRequest> requests;
  for (const auto& [dims, attributes] : shapes) {
    for (const DTypeCombo& combo : op.signature.dtypes) {
      const auto first = combo.find(op.signature.tensors.front().dtype);
      const bool listed = request.dtypes.empty() || first == combo.end() ||
                          std::find(request.dtypes.begin(), request.dtypes.end(), first->second) != request.dtypes.end();
      if (listed) requests.push_back({dims, attributes, combo});
    }
  }
  for (const AttrArg& attribute : op.signature.attributes) {
    if (!attribute.baked) continue;
    std::vector<Value> values = attribute.baked_values;
    if (values.empty() && attribute.type == AttrType::kBool) values = {std::int64_t{0}, std::int64_t{1}};
    std::vector<ShapeRequest> wider;
    for (const ShapeRequest& each : requests) {
      for (const Value& value : values) {
        wider.push_back(each);
        wider.back().attributes[attribute.name] = value;
      }
    }
    if (!values.empty()) requests = std::move(wider);
  }
  return requests;
}

bool listed(const BuildRequest& request, const KernelDecl& kernel) {
  const bool backend = request.backends.empty() ||
                       std::find(request.backends.begin(), request.backends.end(), kernel.backend) != request.backends.end();
  const bool tier = request.tiers.empty() || kernel.backend == kReferenceBackend ||
                    std::find(request.tiers.begin(), request.tiers.end(), kernel.tier) != request.tiers.end();
  return backend && tier;
}

class Builder {
 public:
  explicit Builder(const BuildRequest& request) : request_(request) {}

  Result<BuildReport> run() {
    OPFORGE_ASSIGN(targets_, targets_of(request_));
    for (const Operator* op : request_.operators) OPFORGE_TRY(plan(*op));
    if (jobs_.empty()) {
      return fail(Code::kInvalidArgument, "build: nothing to build: no kernel of these operators serves the targets, backends, tiers and shapes given "
                                          "(--from-cases, or --shape with the operator's dims)", kWhere);
    }
    compile_all();
    if (request_.cancelled && request_.cancelled()) {
      return fail(Code::kCancelled, "interrupted; what was compiled is in the store, the same command goes on from there", kWhere);
    }
    count();
    if (report_.failed > 0) return std::move(report_);
    OPFORGE_TRY(write());
    return std::move(report_);
  }

 private:
  Status plan(const Operator& op) {
    std::map<std::string, std::size_t> per_target;
    std::set<std::string> seen;
    const auto add = [&](const KernelDecl& kernel, const Variant& variant, bool candidate = false) {
      if (!seen.insert(to_string(variant)).second) return;
      ++per_target[variant.target];
      Job job{&op, &kernel, variant, {}, {}, candidate};
      job.row = {op.signature.name, kernel.id, to_string(variant), variant.target, BuildOutcome::kFailed, "", 0};
      jobs_.push_back(std::move(job));
    };
    for (const KernelDecl& kernel : op.kernels) {
      if (!listed(request_, kernel)) continue;
      for (const Target& target : targets_) {
        for (const ShapeRequest& shape : shapes_of(op, request_)) {
          OPFORGE_ASSIGN(auto variants, default_variants(op, kernel, shape, target));
          for (const Variant& variant : variants) add(kernel, variant);
          if (!request_.candidates || kernel.backend == kReferenceBackend) continue;
          OPFORGE_ASSIGN(auto space, variant_space(op, kernel, shape, target));
          for (const Variant& variant : stratified_sample(std::move(space), request_.most_candidates)) add(kernel, variant, true);
        }
      }
    }
    OPFORGE_TRY(plan_winners(op, add));
    for (const auto& [target, count] : per_target) {
      if (request_.most_variants > 0 && count > request_.most_variants) {
        return fail(Code::kInvalidArgument, fmt::format("{} on {} needs {} variants, at most {} are allowed: give fewer shapes or dtypes, or raise --max-variants",
                                                        op.signature.name, target, count, request_.most_variants), kWhere);
      }
    }
    return {};
  }

  // What tuning chose for these targets, and its table entries.
  template <class Add>
  Status plan_winners(const Operator& op, const Add& add) {
    if (request_.records == nullptr) return {};
    for (const Target& target : targets_) {
      RecordFilter filter;
      filter.op = op.signature.name;
      filter.target = target.name;
      OPFORGE_ASSIGN(auto choices, request_.records->choices(filter));
      for (const ChoiceRecord& choice : choices) {
        auto kernel = kernel_of(op, choice.variant);
        if (!kernel || !listed(request_, **kernel)) continue;
        // A record of another source or toolchain is no record of this code.
        auto key = variant_key(op, **kernel, choice.variant);
        if (!key || *key != choice.code_key) continue;
        add(**kernel, choice.variant);
        tables_[op.signature.name].push_back(table_entry(choice));
      }
    }
    return {};
  }

  void compile_all() {
    std::atomic<std::size_t> next{0}, done{0};
    std::mutex progress_mutex;
    const auto work = [&] {
      for (std::size_t i = next++; i < jobs_.size(); i = next++) {
        if (request_.cancelled && request_.cancelled()) return;
        compile(jobs_[i]);
        const std::size_t finished = ++done;
        if (request_.progress) {
          const std::lock_guard lock(progress_mutex);
          request_.progress(jobs_[i].row.variant, finished, jobs_.size());
        }
      }
    };
    const std::size_t count = request_.jobs > 0 ? request_.jobs : std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(count, jobs_.size()); ++i) threads.emplace_back(work);
    work();
  }

  void compile(Job& job) {
    const auto start = std::chrono::steady_clock::now();
    bool compiled = false;
    auto built = obtain(*job.op, *job.kernel, job.variant, *request_.store, &compiled);
    job.row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!built) {
      const Code code = built.error().code;
      const bool skip = code == Code::kUnavailable || (job.candidate && code == Code::kToolchain);
      job.row.outcome = skip ? BuildOutcome::kSkipped : BuildOutcome::kFailed;
      job.row.reason = built.error().message;
      return;
    }
    job.row.outcome = compiled ? BuildOutcome::kCompiled : BuildOutcome::kLoaded;
    job.built = std::move(*built);
  }

  void count() {
    for (const Job& job : jobs_) {
      report_.compiled += job.row.outcome == BuildOutcome::kCompiled;
      report_.loaded += job.row.outcome == BuildOutcome::kLoaded;
      report_.skipped += job.row.outcome == BuildOutcome::kSkipped;
      report_.failed += job.row.outcome == BuildOutcome::kFailed;
      report_.rows.push_back(job.row);
    }
  }

  Status attest(std::size_t index, OperatorSection& section) {
    Job& job = jobs_[index];
    if (!request_.attest || request_.key == nullptr || job.kernel->backend == kReferenceBackend) return {};
    OPFORGE_ASSIGN(Target target, parse_target(job.variant.target));
    // What runs here for certain: this CPU, and the OpenCL device whose driver compiled the code.
    if (target.device != DeviceKind::kCpu && target.device != DeviceKind::kOpenCl) return {};
    const std::vector<DeviceInfo> devices = find_device_api(target.device)->devices();
    std::string why = "no such device is here";
    const auto runs = [&](const DeviceInfo& each) {
      const Support support = runs_on(target, each, false);
      if (!support) why = support.reason();
      return bool(support);
    };
    const auto device = std::find_if(devices.begin(), devices.end(), runs);
    if (device == devices.end()) {
      report_.rows[index].reason = "not attested here: " + why;
      return {};
    }
    if (request_.progress) request_.progress("proving " + job.row.variant, index + 1, jobs_.size());
    OPFORGE_ASSIGN(Attestation attestation, attest_here(*job.op, job.built, *device, *request_.store, *request_.key, request_.cancelled));
    if (!attestation.passed || attestation.tier < job.variant.tier) {
      ++report_.proofs_failed;
      report_.rows[index].reason = fmt::format("PROOF FAILED: claims {}, shown {}; see `opforge verify {}`", tier_name(job.variant.tier),
                                               attestation.passed ? tier_name(attestation.tier) : "nothing", job.op->signature.name);
    } else {
      report_.rows[index].reason = fmt::format("attested {} on {}", tier_name(attestation.tier), device_name(device->device));
      ++report_.attested;
    }
    if (attestation.passed) section.attestations.push_back(std::move(attestation));
    return {};
  }

  Status write() {
    PackContents contents;
    std::set<Digest> known;
    for (const Operator* op : request_.operators) {
      OperatorSection section;
      section.signature = op->signature;
      section.formula = op->formula;
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (jobs_[i].op != op || jobs_[i].row.outcome == BuildOutcome::kSkipped) continue;
        OPFORGE_TRY(attest(i, section));
        if (known.insert(jobs_[i].built.artifact.code_digest).second) {
          contents.codes.push_back({jobs_[i].built.artifact.code_digest, jobs_[i].built.code});
        }
        section.artifacts.push_back(jobs_[i].built.artifact);
      }
      if (section.artifacts.empty()) continue;
      section.table = tables_[op->signature.name];
      report_.table_entries += section.table.size();
      contents.sections.push_back(std::move(section));
    }
    OPFORGE_TRY(write_pack(request_.output, std::move(contents), request_.key));
    Trust trust;
    trust.allow_unsigned = request_.key == nullptr;
    if (request_.key != nullptr) trust.keys.insert(request_.key->public_hex());
    OPFORGE_ASSIGN(auto pack, Pack::open(request_.output, trust));
    report_.pack = pack->info();
    report_.written = true;
    return {};
  }

  const BuildRequest& request_;
  std::vector<Target> targets_;
  std::vector<Job> jobs_;
  std::map<std::string, std::vector<TableEntry>> tables_;
  BuildReport report_;
};

}  // namespace

std::string_view build_outcome_name(BuildOutcome outcome) {
  constexpr std::string_view names[] = {"compiled", "loaded", "skipped", "failed"};
  return names[static_cast<std::size_t>(outcome)];
}

Result<BuildReport> build_pack(const BuildRequest& request) { return Builder(request).run(); }

}  // namespace opforge
