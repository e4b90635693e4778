#include "measure/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operator/expression.hpp"
#include "verify/judge.hpp"

namespace opforge {
namespace {

constexpr std::size_t kMostSets = 1024;
constexpr std::int64_t kTiledElements = std::int64_t{1} << 22;

// What a work model may use: dims, attributes, dtype variables and item sizes.
Result<ValueMap> work_symbols(const Operator& op, const BenchShape& shape) {
  ValueMap out = shape.dims;
  OPFORGE_ASSIGN(const ValueMap attributes, bind_attributes(op.signature, shape.attributes));
  for (const auto& [name, value] : attributes) out[name] = value;
  for (const auto& [variable, dtype] : shape.dtypes) {
    out[variable] = std::string(dtype_name(dtype));
    out[variable + ".itemsize"] = static_cast<std::int64_t>(itemsize(dtype));
  }
  for (const TensorArg& arg : op.signature.tensors) {
    const auto found = shape.dtypes.find(arg.dtype);
    const auto dtype =
        found != shape.dtypes.end() ? Result<DType>(found->second) : parse_dtype(arg.dtype);
    if (dtype) out[arg.name + ".itemsize"] = static_cast<std::int64_t>(itemsize(*dtype));
    out[arg.name + ".present"] = std::int64_t{1};
  }
  return out;
}

Result<double> evaluate_work(const std::string& text, const ValueMap& symbols) {
  if (text.empty()) return 0.0;
  OPFORGE_ASSIGN(const Expression expression, Expression::parse(text));
  return expression.evaluate_float(lookup_in(symbols));
}

Trial bench_trial(const BenchShape& shape) {
  Trial out;
  out.name = shape.name + " " + to_string(shape.dtypes);
  out.dims = shape.dims;
  out.attributes = shape.attributes;
  out.dtypes = shape.dtypes;
  return out;
}

// Buffers that all subjects take turns on.
struct BufferSets {
  std::vector<TrialMemory> memories;
  std::vector<std::vector<void*>> pointers;
};

Result<BufferSets> make_sets(const Operator& op, const BenchShape& shape, DeviceApi& api,
                             const DeviceInfo& device, const Floor& floor, CacheMode cache) {
  const double set_bytes = std::max(floor.bytes, 1.0);
  std::size_t count = 1;
  if (cache == CacheMode::kCold) {
    const auto cached = static_cast<double>(std::max<std::int64_t>(device.l2_bytes, 1 << 25));
    count = static_cast<std::size_t>(
        std::clamp(std::ceil(4 * cached / set_bytes), 2.0, static_cast<double>(kMostSets)));
    if (device.memory_bytes > 0) {
      const double most = static_cast<double>(device.memory_bytes) / 4 / set_bytes;
      count = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(most, 1.0)), 1, count);
    }
  }
  BufferSets out;
  Trial trial = bench_trial(shape);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    trial.seed = trial_seed({}, trial.name, i);
    trial.tiled = most > kTiledElements || set_bytes > 16.0 * kTiledElements;
    OPFORGE_ASSIGN(TrialMemory memory, TrialMemory::make(op, trial, api, device.device));
    for (const TensorView& view : memory.views()) {
      if (view.present()) most = std::max(most, view.element_count());
    }
    out.pointers.push_back(memory.data());
    out.memories.push_back(std::move(memory));
  }
  return out;
}

// One artifact with its plan and workspace.
struct Contender {
  LoadedSubject subject;
  std::shared_ptr<const Plan> plan;
  void* workspace = nullptr;
  std::string refused;

  explicit Contender(LoadedSubject loaded) : subject(std::move(loaded)) {}
  Contender(Contender&& other) noexcept
      : subject(std::move(other.subject)),
        plan(std::move(other.plan)),
        workspace(std::exchange(other.workspace, nullptr)),
        refused(std::move(other.refused)) {}
  Contender& operator=(Contender&&) = delete;
  ~Contender() {
    if (workspace != nullptr)
      subject.api().release(subject.device().device.ordinal, workspace, nullptr);
  }
};

Result<Contender> make_contender(const Operator& op, const BuiltCode& code, const BufferSets& sets,
                                 const BenchShape& shape, const DeviceInfo& device) {
  OPFORGE_ASSIGN(LoadedSubject subject, LoadedSubject::load(op.signature, code, device, true));
  Contender out(std::move(subject));
  OPFORGE_ASSIGN(LoadedSubject::Planned planned,
                 out.subject.plan(sets.memories.front().views(), shape.attributes));
  out.plan = std::move(planned.plan);
  out.refused = std::move(planned.refused);
  if (out.plan && out.plan->workspace_bytes() > 0) {
    OPFORGE_ASSIGN(out.workspace, out.subject.api().allocate(device.device.ordinal,
                                                             out.plan->workspace_bytes(), nullptr));
  }
  return out;
}

// Why the output of one more run, over poisoned buffers, is wrong; empty when it is right.
Result<std::string> wrong_output(const Operator& op, Contender& contender, TrialMemory& memory) {
  OPFORGE_TRY(memory.reset());
  OPFORGE_TRY(contender.subject.run(*contender.plan, memory.data()));
  if (auto status = memory.unchanged(); !status) return status.error().message;
  OPFORGE_ASSIGN(const Judgement verdict,
                 judge(op, memory, op.tolerances.at(contender.subject.artifact().variant.tier)));
  return verdict.problem;
}

}  // namespace

Result<Floor> floor_of(const Operator& op, const BenchShape& shape, const DeviceInfo& device,
                       const CopyCeiling& ceiling) {
  OPFORGE_ASSIGN(const ValueMap symbols, work_symbols(op, shape));
  OPFORGE_ASSIGN(const double read, evaluate_work(op.work.bytes_read, symbols));
  OPFORGE_ASSIGN(const double written, evaluate_work(op.work.bytes_written, symbols));
  Floor out;
  out.bytes = read + written;
  OPFORGE_ASSIGN(out.flops, evaluate_work(op.work.flops, symbols));
  out.bytes_per_second = ceiling.bytes_per_second;
  out.fits_cache = out.bytes < static_cast<double>(device.l2_bytes);
  return out;
}

Result<Comparison> bench_code(const Operator& op, std::span<const BuiltCode> codes,
                              const BenchShape& shape, DeviceApi& api, const DeviceInfo& device,
                              const CopyCeiling& ceiling, const MeasureOptions& options) {
  OPFORGE_ASSIGN(const Floor floor, floor_of(op, shape, device, ceiling));
  OPFORGE_ASSIGN(BufferSets sets, make_sets(op, shape, api, device, floor, options.cache));
  std::vector<Contender> contenders;
  contenders.reserve(codes.size());
  std::vector<Subject> subjects;
  for (const BuiltCode& code : codes) {
    OPFORGE_ASSIGN(Contender contender, make_contender(op, code, sets, shape, device));
    contenders.push_back(std::move(contender));
    const Contender& kept = contenders.back();
    if (!kept.plan) continue;
    subjects.push_back({to_string(code.artifact.variant),
                        [&kept, &sets](std::size_t set, StreamHandle stream) {
                          return kept.plan->execute(sets.pointers[set].data(), kept.workspace,
                                                    stream);
                        },
                        sets.pointers.size()});
  }
  if (contenders.empty() || !contenders.front().plan) {
    return fail(Code::kUnavailable,
                fmt::format("{} cannot be timed at {}: {}", op.signature.name, shape.name,
                            contenders.empty() ? "no code was given" : contenders.front().refused),
                "measure/bench");
  }
  const std::shared_ptr<Timer> timer = timer_of(api);
  OPFORGE_ASSIGN(Comparison out, measure(*timer, device.device.ordinal, subjects, floor, options));
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (!contenders[i].plan) {
      Reading refused;
      refused.name = to_string(codes[i].artifact.variant);
      refused.rejected = "refused: " + contenders[i].refused;
      out.readings.insert(out.readings.begin() + static_cast<std::ptrdiff_t>(i), refused);
      out.ratios.insert(out.ratios.begin() + static_cast<std::ptrdiff_t>(i), summarise({}));
      continue;
    }
    OPFORGE_ASSIGN(const std::string wrong,
                   wrong_output(op, contenders[i], sets.memories[i % sets.memories.size()]));
    if (!wrong.empty()) out.readings[i].rejected = "wrong: " + wrong;
  }
  return out;
}

}  // namespace opforge
