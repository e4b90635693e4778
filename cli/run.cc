// opforge run, opforge explain
#include <fmt/format.h>

#include <chrono>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/session.hpp"
#include "operator/infer.hpp"
#include "runtime/backends.hpp"
#include "runtime/metrics.hpp"
#include "runtime/trace.hpp"
#include "tensor/npy.hpp"

namespace opforge::cli {
namespace {

struct RunOptions {
  Common common;
  SessionOptions session;
  std::string op, attributes, trace;
  std::vector<std::string> inputs, outputs, dtypes;
  std::size_t repeat = 1;
  bool stats = false;
};

// Memory of the device (the host's own for a CPU), released at the end.
class Buffer {
 public:
  static Result<Buffer> make(DeviceApi& api, int ordinal, std::size_t bytes) {
    Buffer buffer(api, ordinal);
    if (bytes > 0) {
      OPFORGE_ASSIGN(buffer.data_, api.allocate(ordinal, bytes, nullptr));
    }
    return buffer;
  }
  Buffer(Buffer&& other) noexcept : api_(other.api_), ordinal_(other.ordinal_), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (data_ != nullptr) api_->release(ordinal_, data_, nullptr);
  }
  void* data() const { return data_; }

 private:
  Buffer(DeviceApi& api, int ordinal) : api_(&api), ordinal_(ordinal) {}
  DeviceApi* api_;
  int ordinal_;
  void* data_ = nullptr;
};

using Files = std::map<std::string, std::string>;

Result<Files> name_files(const Signature& signature, const std::vector<std::string>& items, std::string_view flag) {
  Files files;
  for (const std::string& item : items) {
    const auto at = item.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == item.size()) {
      return fail(Code::kInvalidArgument, fmt::format("{}: expected NAME=FILE.npy, got '{}'", flag, item));
    }
    const std::string name = item.substr(0, at);
    if (find_tensor(signature, name) == nullptr) {
      std::vector<std::string> known;
      for (const TensorArg& arg : signature.tensors) known.push_back(arg.name);
      return fail(Code::kInvalidArgument, fmt::format("{}: {} has no tensor '{}'; it has: {}", flag, signature.name, name, join(known, ", ")));
    }
    if (!files.emplace(name, item.substr(at + 1)).second) {
      return fail(Code::kInvalidArgument, fmt::format("{}: {} is given twice", flag, name));
    }
  }
  return files;
}

struct Arguments {
  std::vector<TensorView> tensors;
  std::vector<Buffer> buffers;
};

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.element_count()) * itemsize(view.dtype);
}

Result<Arguments> load_arguments(const Signature& signature, const RunOptions& options, const DeviceInfo& device,
                                 DeviceApi& api, const ValueMap& attributes) {
  OPFORGE_ASSIGN(Files inputs, name_files(signature, options.inputs, "--input"));
  std::map<std::string, DType> as;
  for (const std::string& item : options.dtypes) {
    for (const std::string& part : split(item, ',')) {
      const auto at = part.find('=');
      if (at == std::string::npos) return fail(Code::kInvalidArgument, fmt::format("--dtype: expected NAME=DTYPE (e.g. x=bf16), got '{}'", part));
      OPFORGE_ASSIGN(DType dtype, parse_dtype(part.substr(at + 1)));
      as[part.substr(0, at)] = dtype;
    }
  }
  Arguments arguments;
  for (const TensorArg& arg : signature.tensors) {
    const auto file = inputs.find(arg.name);
    if (file == inputs.end()) {
      if (arg.access != Access::kWrite && !arg.optional) {
        return fail(Code::kInvalidArgument, fmt::format("{} needs --input {}=FILE.npy", signature.name, arg.name));
      }
      arguments.tensors.push_back(TensorView::absent());
      continue;
    }
    OPFORGE_ASSIGN(NpyArray array, read_npy(file->second));
    if (const auto dtype = as.find(arg.name); dtype != as.end()) OPFORGE_TRY(array.reinterpret_as(dtype->second));
    if (!array.dtype) {
      return fail(Code::kInvalidArgument, fmt::format("{} holds {}-byte data of NumPy type '{}'; say what it is, e.g. --dtype {}=bf16",
                                                      file->second, array.item_bytes, array.descr, arg.name));
    }
    if (array.dims.size() > static_cast<std::size_t>(kMaxRank)) {
      return fail(Code::kInvalidArgument, fmt::format("{}: rank {}, at most {} is supported", file->second, array.dims.size(), kMaxRank));
    }
    OPFORGE_ASSIGN(Buffer buffer, Buffer::make(api, device.device.ordinal, array.bytes.size()));
    if (!array.bytes.empty()) OPFORGE_TRY(api.copy(device.device.ordinal, buffer.data(), array.bytes.data(), array.bytes.size()));
    arguments.tensors.push_back(TensorView::contiguous(buffer.data(), *array.dtype, array.dims, device.device));
    arguments.buffers.push_back(std::move(buffer));
  }
  OPFORGE_ASSIGN(arguments.tensors, infer_outputs(signature, arguments.tensors, attributes));
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    TensorView& view = arguments.tensors[i];
    if (!view.present() || view.data != nullptr) continue;
    if (view.element_count() == 0) continue;
    OPFORGE_ASSIGN(Buffer buffer, Buffer::make(api, device.device.ordinal, bytes_of(view)));
    view.data = buffer.data();
    arguments.buffers.push_back(std::move(buffer));
  }
  return arguments;
}

Status save_outputs(const Signature& signature, const Files& files, const Arguments& arguments, DeviceApi& api, int ordinal) {
  for (std::size_t i = 0; i < signature.tensors.size(); ++i) {
    const auto file = files.find(signature.tensors[i].name);
    if (file == files.end()) continue;
    const TensorView& view = arguments.tensors[i];
    std::string bytes(bytes_of(view), '\0');
    if (!bytes.empty()) OPFORGE_TRY(api.copy(ordinal, bytes.data(), view.data, bytes.size()));
    OPFORGE_TRY(write_npy(file->second, view.dtype, {view.dims.data(), static_cast<std::size_t>(view.rank)}, bytes));
  }
  return {};
}

// The shape of a call as dims of plain symbols, for compiling in development mode.
Result<BoundCall> bound(const Signature& signature, const Arguments& arguments, const ValueMap& attributes) {
  return bind_call(signature, arguments.tensors, attributes);
}

std::string stats_text(const Explanation& explanation, double us) {
  std::string text = fmt::format("\nserved by  {}\ngrade      {}\n", explanation.outcome, explanation.grade);
  for (const Candidate& candidate : explanation.candidates) {
    if (candidate.taken) text += fmt::format("why        {}\n", candidate.reason);
  }
  text += fmt::format("host time  {}\n", human_us(us));
  for (const FallbackCount& count : fallback_counts()) {
    text += fmt::format("fallback   operator={} asked={} used={}: {}\n", count.op, tier_name(count.asked), tier_name(count.used), count.count);
  }
  for (const NamedCount& count : event_counts()) text += fmt::format("counted    operator={} {}: {}\n", count.op, count.name, count.count);
  return text;
}

Status write_trace(const std::string& path) {
  if (path.empty()) return {};
  std::string lines;
  for (const TraceRecord& record : trace_take()) lines += trace_to_json(record) + "\n";
  return write_file_atomic(path, lines);
}

Result<int> run_call(const RunOptions& options) {
  OPFORGE_ASSIGN(Session session, Session::open(options.session, options.common, options.op));
  OPFORGE_ASSIGN(const Signature* signature, session.signature(options.op));
  OPFORGE_ASSIGN(ValueMap attributes, parse_attributes(*signature, options.attributes));
  OPFORGE_ASSIGN(Files outputs, name_files(*signature, options.outputs, "--output"));
  const DeviceInfo& device = session.device();
  DeviceApi& api = *find_device_api(device.device.kind);
  OPFORGE_ASSIGN(Arguments arguments, load_arguments(*signature, options, device, api, attributes));
  if (options.session.pack.empty()) {
    OPFORGE_ASSIGN(BoundCall call, bound(*signature, arguments, attributes));
    OPFORGE_TRY(session.want(options.op, call.dims, call.attributes, call.dtypes));
  }
  const CallOptions call = session.call_options();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < options.repeat; ++i) {
    OPFORGE_ASSIGN(auto unavailable, session.runtime().call(options.op, arguments.tensors, attributes, call));
    if (unavailable) {
      OPFORGE_TRY(write_trace(options.trace));
      return fail(Code::kUnavailable, fmt::format("{} is unavailable here: {}", unavailable->op, unavailable->reason));
    }
  }
  OPFORGE_TRY(api.synchronize(device.device.ordinal, nullptr));
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / double(options.repeat);
  OPFORGE_TRY(save_outputs(*signature, outputs, arguments, api, device.device.ordinal));
  const Digest digest = session.runtime().choices_digest();
  std::string text;
  for (const auto& [name, file] : outputs) text += fmt::format("wrote {} ({})\n", file, describe(arguments.tensors[static_cast<std::size_t>(find_tensor(*signature, name) - signature->tensors.data())]));
  text += fmt::format("choices {}\n", digest.short_hex());
  // Explaining looks the call up again without running it, so it does not disturb the counters of the call.
  const Explanation explanation = session.runtime().explain(options.op, arguments.tensors, attributes, call);
  if (options.stats) text += stats_text(explanation, us);
  nlohmann::json json = {{"operator", options.op}, {"served_by", explanation.outcome}, {"grade", explanation.grade},
                         {"host_us", us}, {"choices", digest.hex()}};
  for (const FallbackCount& count : fallback_counts()) {
    json["fallbacks"].push_back({{"operator", count.op}, {"asked", tier_name(count.asked)}, {"used", tier_name(count.used)}, {"count", count.count}});
  }
  for (const NamedCount& count : event_counts()) json["events"].push_back({{"operator", count.op}, {"name", count.name}, {"count", count.count}});
  return finish(options.common, text, json);
}

Result<int> run(const RunOptions& options) {
  if (!options.trace.empty()) trace_start();
  auto result = run_call(options);
  if (Status written = write_trace(options.trace); !written && result) return fail(written.error());
  return result;
}

struct ExplainOptions {
  Common common;
  SessionOptions session;
  std::string op, shape, dtype, attributes;
};

Result<int> explain(const ExplainOptions& options) {
  OPFORGE_ASSIGN(Session session, Session::open(options.session, options.common, options.op));
  OPFORGE_ASSIGN(const Signature* signature, session.signature(options.op));
  OPFORGE_ASSIGN(ValueMap dims, parse_shape(options.shape));
  OPFORGE_ASSIGN(ValueMap attributes, parse_attributes(*signature, options.attributes));
  OPFORGE_ASSIGN(auto dtypes, parse_dtypes(*signature, options.dtype));
  std::string text;
  nlohmann::json json = nlohmann::json::array();
  const DTypeCombo& combo = dtypes.front();
  OPFORGE_TRY(session.want(options.op, dims, attributes, combo));
  OPFORGE_ASSIGN(auto tensors, placeholder_tensors(*signature, dims, combo, attributes, session.device().device));
  const Explanation explanation = session.runtime().explain(options.op, tensors, attributes, session.call_options());
  text += fmt::format("{} {} {} on {} ({}), asked {}\n\n", options.op, to_text(dims), to_string(combo),
                      device_name(session.device().device), session.device().model, tier_name(explanation.asked));
  Table table({"", "kernel", "tier", "target", "measured", "reason", "variant"});
  nlohmann::json candidates = nlohmann::json::array();
  for (const Candidate& candidate : explanation.candidates) {
    table.row({candidate.taken ? "->" : "", candidate.kernel, std::string(tier_name(candidate.tier)), candidate.target,
               human_us(candidate.median_us), candidate.reason, candidate.variant});
    candidates.push_back({{"source", candidate.source}, {"kernel", candidate.kernel}, {"variant", candidate.variant},
                          {"backend", candidate.backend}, {"target", candidate.target}, {"tier", tier_name(candidate.tier)},
                          {"taken", candidate.taken}, {"reason", candidate.reason}, {"median_us", candidate.median_us}});
  }
  text += table.text();
  text += fmt::format("\noutcome  {}{}\n", explanation.outcome, explanation.grade.empty() ? "" : " (" + explanation.grade + ")");
  return finish(options.common, text,
                {{"operator", options.op}, {"dims", to_json(dims)}, {"dtypes", to_string(combo)},
                 {"device", device_name(session.device().device)}, {"asked", tier_name(explanation.asked)},
                 {"candidates", candidates}, {"outcome", explanation.outcome}, {"grade", explanation.grade}});
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run one operator on NumPy files, from a pack or (development) from sources");
  command->add_option("operator", options->op, "e.g. norm.rms_norm")->required();
  command->add_option("--input", options->inputs, "NAME=FILE.npy; repeat for each tensor")->allow_extra_args(false);
  command->add_option("--output", options->outputs, "NAME=FILE.npy; repeat for each tensor")->allow_extra_args(false);
  command->add_option("--dtype", options->dtypes, "NAME=bf16: read 2-byte data as that type")->allow_extra_args(false);
  command->add_option("--attr", options->attributes, "eps=1e-5,zero_centered=true");
  command->add_option("--trace", options->trace, "Write a trace of every call, failed ones too (JSON lines)");
  command->add_option("--repeat", options->repeat, "Call it this often")->check(CLI::Range(1, 1000000))->capture_default_str();
  command->add_flag("--stats", options->stats, "What served the call and why; fallback and other counters");
  add_session(*command, options->session);
  add_common(*command, options->common);
  set_body(*command, [options] { return run(*options); });

  auto explain_options = std::make_shared<ExplainOptions>();
  CLI::App* explain_command = app.add_subcommand("explain", "Every candidate for a call and the reason it was or was not taken");
  explain_command->add_option("operator", explain_options->op, "e.g. norm.rms_norm")->required();
  explain_command->add_option("--shape", explain_options->shape, "M=1,N=4096")->required();
  explain_command->add_option("--dtype", explain_options->dtype, "bf16, or T=bf16,W=f32; default: the operator's first");
  explain_command->add_option("--attr", explain_options->attributes, "eps=1e-5,...");
  add_session(*explain_command, explain_options->session);
  add_common(*explain_command, explain_options->common);
  set_body(*explain_command, [explain_options] { return explain(*explain_options); });
}

}  // namespace opforge::cli
